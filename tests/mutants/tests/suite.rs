//! The suite for locks, in a build with `--cfg lockrt_mutants`.
#![cfg(lockrt_mutants)]

use lockrt::{Clock, Memory};

lockrt::lock_conformance_tests!(Memory::new(), paused = Memory::on(Clock::tokio()));
