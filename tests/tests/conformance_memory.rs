//! The conformance suites on the memory backend.

use lockrt::{Clock, Memory};

lockrt::conformance_tests!(Memory::new(), power = none);
lockrt::lock_conformance_tests!(Memory::new(), paused = Memory::on(Clock::tokio()));
