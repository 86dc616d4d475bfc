//! A lock service that is none of lockrt's, and the backend for it: what somebody outside would write.
//!
//! `server` is the service, a process somewhere in real life; it knows nothing of lockrt. `client` is
//! the backend, on lockrt's public API alone. `tests/conformance.rs` starts the one, hands the other to
//! the conformance suite, and says what can be done to the service.

#![cfg(unix)]

mod client;
mod server;

pub use client::Doorman;
pub use server::Server;
