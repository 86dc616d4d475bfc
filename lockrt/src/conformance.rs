//! The suite that every backend must pass.
//!
//! Each case is an async function that panics when the backend under test is wrong. Say how a test
//! gets clients of your lock service by implementing [`Service`], then let
//! [`conformance_tests!`](crate::conformance_tests) write one `#[tokio::test]` per case:
//!
//! ```
//! lockrt::conformance_tests!(lockrt::Memory::new());
//! # fn main() {}
//! ```
//!
//! The expression is evaluated for each case, and may `.await`. Cases use keys of their own, so it may also name a
//! server that is shared. Give it real time and a real server: the suite checks what its clock does.
//! What needs power over the server (restarts, broken connections, a raw look at its data) is yours
//! to test.

// Every function here is a check, and panics when it fails.
#![allow(clippy::missing_panics_doc)]

mod asking;
mod crowding;
mod expiring;
mod fencing;
mod granting;
pub mod lock;
mod naming;
mod owning;
mod waking;

pub use crowding::*;
pub use expiring::*;
pub use fencing::*;
pub use granting::*;
pub use naming::*;
pub use owning::*;
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

    /// How many locks the service stores at present, the expired ones not counted; none where that
    /// cannot be known.
    fn stored_locks(&self) -> impl Future<Output = Option<usize>> + Send {
        async { None }
    }
}

impl Service for Memory {
    type Client = Self;

    async fn client(&self) -> Self {
        self.clone()
    }

    async fn stored_locks(&self) -> Option<usize> {
        Some(self.held())
    }
}

/// Writes one `#[tokio::test]` per case of the [suite](crate::conformance) for the
/// [`Service`] that the expression gives; it may `.await`.
///
/// The crate it stands in needs tokio with the features `macros`, `rt` and `time`.
#[macro_export]
macro_rules! conformance_tests {
    ($service:expr) => {
        $crate::conformance_tests! { @ $service;
            a_free_key_is_granted_and_a_second_owner_is_held_at_once
            a_failed_attempt_changes_nothing_for_the_holder_and_leaves_nothing_behind
            the_same_claim_twice_is_one_grant
            a_repeated_attempt_starts_the_ttl_again
            release_lets_the_next_one_in_ten_rounds_in_a_row
            releasing_a_grant_that_nobody_saw_frees_it
            releasing_a_claim_that_was_never_granted_spares_the_holder
            a_released_waiter_stands_in_nobodys_way
            release_twice_is_harmless_also_when_somebody_else_holds_the_key
            a_stranger_can_neither_release_nor_renew
            a_strangers_renewal_does_not_move_the_expiry
            expiry_lets_the_next_one_in_and_not_before
            renewal_moves_the_expiry
            renewal_sets_the_remaining_time_and_does_not_add_to_it
            renewal_after_expiry_is_gone_and_does_not_create_the_key
            renewal_after_expiry_spares_the_next_holder
            a_batch_of_renewals_answers_for_each_claim_by_itself
            a_large_batch_of_renewals_is_answered_in_order
            a_ttl_out_of_bounds_is_refused_before_anything_is_sent
            keys_are_independent_of_each_other
            a_key_with_nul_is_refused
            fencing_tokens_rise_across_owners_releases_and_expiry
            fencing_tokens_are_never_smaller_for_a_repeated_claim
            a_backend_gives_tokens_if_and_only_if_it_says_so
            a_waiter_wakes_soon_after_a_release
            a_release_at_any_moment_of_a_waiters_round_wakes_it
            dropping_a_wait_has_no_effect
            a_waiter_without_a_wake_up_gets_in_when_the_lease_ends
            a_counter_under_two_keys_is_exact
            a_hundred_contenders_are_never_two_inside_and_all_get_done
            a_hundred_thousand_keys_leave_nothing_behind
        }
    };
    (@ $service:expr; $($case:ident)+) => {$(
        #[::tokio::test]
        async fn $case() {
            let service = $service;
            $crate::conformance::$case(&service).await;
        }
    )+};
}
