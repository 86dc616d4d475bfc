//! The suite that every backend must pass.
//!
//! Each case is an async function that panics when the backend under test is wrong. Say how a test
//! gets clients of your lock service, and how it looks at what that stores, by implementing
//! [`Service`], then let [`conformance_tests!`](crate::conformance_tests) write one `#[tokio::test]`
//! per case:
//!
//! ```
//! lockrt::conformance_tests!(lockrt::Memory::new(), power = none);
//! # fn main() {}
//! ```
//!
//! Cases use keys of their own, so the expression may also name a server that is shared; those that
//! count what is stored need it for themselves while they run. Give it real time and a real server:
//! the suite checks what its clock does.
//!
//! # Power over the service
//!
//! Half of what goes wrong with lock services goes wrong when they are down, slow, restarted or have
//! a wrong clock. Implement [`Power`] for a test's own server, and name each [`Fault`] under `can` or
//! `cannot`; leaving one out does not compile. The cases of a fault that is not offered are written
//! too, as ignored tests whose reason says so: they are listed in each run and never count as passed.
//!
//! # Capabilities
//!
//! What a backend says of itself in [`Capabilities`](crate::Capabilities) decides what a case asks
//! for, and is checked: grants have a fencing token if and only if it fences; who wakes wakes for
//! every release; who is fair serves in order; leases last for their TTL where they end per claim, and
//! end with their client where they end per session.
//!
//! # How good it is
//!
//! A suite that a wrong backend passes is worthless. This one is run against some fifty backends that
//! are wrong on purpose (`tests/tests/mutants_backend.rs`), and each of its cases fails for one of
//! them.

// Every function here is a check, and panics when it fails.
#![allow(clippy::missing_panics_doc)]

mod asking;
mod batching;
mod bounding;
mod clocks;
mod crowding;
mod expiring;
mod fencing;
mod granting;
mod naming;
mod outages;
mod owning;
mod power;
mod queueing;
mod releasing;
mod storing;
mod suite;
mod unanswered;
mod waking;

pub use batching::*;
pub use bounding::*;
pub use clocks::*;
pub use crowding::*;
pub use expiring::*;
pub use fencing::*;
pub use granting::*;
pub use naming::*;
pub use outages::*;
pub use owning::*;
pub use power::{Fault, Power, SLOWNESS, STEP};
pub use queueing::*;
pub use releasing::*;
pub use storing::*;
pub use suite::{Case, cases, cases_under};
pub use unanswered::*;
pub use waking::*;

use std::future::Future;

use crate::backend::contract::Backend;
use crate::backend::memory::Memory;

/// A lock service under test.
#[diagnostic::on_unimplemented(
    message = "the conformance suite cannot get clients from `{Self}`",
    note = "implement `lockrt::conformance::Service` for a type that holds the lock service: its `client()` gives one more client"
)]
pub trait Service: Send + Sync {
    /// What talks to it.
    type Client: Backend;

    /// One more client, which shares with earlier ones nothing but the service.
    fn client(&self) -> impl Future<Output = Self::Client> + Send;

    /// What the service stores at present, seen from outside: do not ask a client.
    fn stored(&self) -> impl Future<Output = Stored> + Send;
}

/// What a service stores. What has expired does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What belongs to one lock each: holders, places in queues, messages.
    pub per_key: usize,
    /// How much of that would stay for ever if all clients died now.
    pub endless: usize,
    /// What serves all locks, such as the last fencing tokens, however long it stays.
    pub shared: usize,
}

impl Service for Memory {
    type Client = Self;

    async fn client(&self) -> Self {
        self.clone()
    }

    async fn stored(&self) -> Stored {
        Stored { per_key: self.held(), endless: 0, shared: 1 }
    }
}
