//! The suite for the lock that stands on a backend: whatever the backend is, a lock keeps its promises.
//!
//! Say how a test gets clients of your lock service by implementing [`Service`](super::Service), then
//! let [`lock_conformance_tests!`](crate::lock_conformance_tests) write one `#[tokio::test]` per case:
//!
//! ```
//! lockrt::lock_conformance_tests!(lockrt::Memory::new());
//! # fn main() {}
//! ```
//!
//! Cases use keys of their own, so the expression may name a server that is shared; it is evaluated
//! for each case, and may `.await`. In real time the whole takes a minute or less of waiting. A service
//! inside the test whose leases end by tokio's clock need not wait: give a second expression for the
//! cases which run on paused time, and the first one is left for those that block threads:
//!
//! ```
//! use lockrt::{Clock, Memory};
//!
//! lockrt::lock_conformance_tests!(Memory::new(), paused = Memory::on(Clock::tokio()));
//! # fn main() {}
//! ```
//!
//! Faults are put between lock and backend by [`Faulty`], which is yours to use too. What needs power
//! over processes and networks (a holder that is killed, stopped or cut off) is not in the suite.
//!
//! It is run in builds of this crate that are wrong on purpose (`tests/tests/mutants_lock.rs`), and fails
//! in each.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that cannot go on has failed")]

mod cancelling;
mod closing;
mod faulty;
mod keeping;
mod locks;
mod losing;
mod nesting;
mod polled;
mod prefixing;
mod queueing;
mod refusing;
mod releasing;
mod renewing;
mod settling;
mod telling;
mod waiting;
mod watching;
mod yielding;

pub use cancelling::*;
pub use closing::*;
pub use faulty::{Call, Fate, Faulty};
pub use keeping::*;
pub use locks::Locks;
pub use losing::*;
pub use nesting::*;
pub use prefixing::*;
pub use queueing::*;
pub use refusing::*;
pub use releasing::*;
pub use renewing::*;
pub use settling::*;
pub use telling::*;
pub use waiting::*;
pub use watching::in_time;
pub use yielding::Yielding;

/// Writes one `#[tokio::test]` per case of the [suite](crate::conformance::lock) for locks on the
/// [`Service`](crate::conformance::Service) that the expression gives; it may `.await`.
///
/// A second expression, `paused = ..`, gives a service on tokio's clock for the cases that may run on
/// paused time.
///
/// The crate it stands in needs tokio with the features `macros`, `rt` and `time`; with paused time
/// also `test-util`.
#[macro_export]
macro_rules! lock_conformance_tests {
    ($service:expr $(,)?) => {
        $crate::lock_conformance_tests! { @ [$service] [$service] }
    };
    ($service:expr, paused = $paused:expr $(,)?) => {
        $crate::lock_conformance_tests! { @ [$service] [paused $paused] }
    };
    (@ [$($blocking:tt)+] [$($waiting:tt)+]) => {
        // These block threads, or end runtimes.
        $crate::lock_conformance_tests! { @write $($blocking)+;
            the_lock_is_free_after_its_runtime_was_shut_down
            a_lock_that_cancellation_keeps_outlives_its_runtime
            the_lock_is_free_after_its_guard_was_dropped_outside_any_runtime
            a_value_that_came_late_is_lost
            a_value_that_came_late_stands_where_losses_are_only_reported
            a_bodys_own_error_stays_after_a_loss
            a_body_that_blocks_its_thread_keeps_a_renewed_lease
            a_body_that_blocks_its_thread_past_its_lease_is_not_polled_again
            a_manager_that_is_dropped_finishes_its_releases
        }
        $crate::lock_conformance_tests! { @write $($waiting)+;
            the_lock_is_free_after_ok
            the_lock_is_free_after_an_error
            the_lock_is_free_after_a_question_mark
            the_lock_is_free_after_an_early_return
            the_lock_is_free_after_a_panic
            the_lock_is_free_after_an_outer_time_out
            the_lock_is_free_after_a_drop_at_any_await
            the_lock_is_free_after_its_guard_was_dropped
            a_lock_that_cancellation_keeps_is_free_after_ok_and_after_an_error
            a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_a_panic
            a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_an_outer_time_out
            a_lock_that_cancellation_keeps_lasts_to_its_ttl_after_a_drop_at_any_await
            an_acquire_of_a_free_key_that_is_dropped_at_any_poll_leaves_nothing
            a_wait_for_a_free_key_that_is_dropped_at_any_poll_leaves_nothing
            an_acquire_of_a_held_key_that_is_dropped_at_any_poll_leaves_nothing
            a_wait_for_a_held_key_that_is_dropped_at_any_poll_leaves_nothing
            an_acquire_that_is_dropped_leaves_nothing_even_if_cancellation_keeps_keys
            an_acquire_that_is_dropped_leaves_nothing_even_if_keys_are_held_for_a_minimum
            an_acquire_that_arrives_after_its_release_leaves_nothing
            the_body_does_not_run_while_somebody_else_holds_the_lock
            a_body_that_outlives_its_lease_is_dropped_as_lost
            a_service_that_answers_nobody_is_unavailable_and_never_contended
            a_grant_behind_unanswered_attempts_runs_the_body_once
            the_bodys_result_wins_over_a_failed_release
            a_release_says_what_came_of_it
            a_release_that_is_only_started_keeps_nobody
            a_body_goes_on_after_the_loss_where_it_is_only_reported
            a_body_that_gave_its_lease_back_is_neither_stopped_nor_lost
            a_wait_ends_at_its_deadline
            a_wait_of_nothing_makes_one_attempt
            a_wait_in_line_behind_another_one_ends_at_its_own_deadline
            a_wait_gets_the_lock_soon_after_its_release
            a_wait_gets_the_lock_when_its_holder_is_gone
            a_woken_loser_waits_on_to_its_own_deadline
            a_cancelled_wait_never_acquires_later
            a_wait_longer_than_the_bound_on_silence_ends_with_the_lock
            fail_is_exactly_one_answered_attempt
            a_silent_service_holds_nobody_longer_than_the_bound
            a_wait_for_ever_ends_when_the_service_falls_silent
            a_normal_release_is_no_loss
            a_lease_is_lost_at_its_deadline_and_stays_lost
            a_lease_is_held_until_its_deadline
            a_deadline_is_counted_from_before_the_request_left
            a_deadline_is_counted_from_before_the_renewal_left
            a_lease_whose_renewals_fail_is_lost_at_its_deadline_and_not_earlier
            a_lease_that_the_service_denies_is_lost_at_once
            an_extension_that_comes_after_the_deadline_revives_nothing
            every_watcher_hears_of_a_loss
            a_renewed_body_outlives_twenty_ttls
            a_renewed_lease_ends_at_its_cap
            a_lease_survives_two_renewal_errors_in_a_row
            nothing_is_renewed_unless_the_policy_says_so
            nothing_is_renewed_after_a_release
            nothing_is_renewed_after_a_drop
            nothing_is_renewed_after_a_panic
            nothing_is_renewed_after_a_loss
            nothing_is_renewed_after_a_release_that_failed
            a_key_is_kept_after_an_early_return_and_keeps_nobody_waiting
            a_key_is_kept_after_its_guard_was_dropped
            a_body_that_takes_longer_frees_its_key_at_once
            a_key_that_would_not_live_long_enough_is_renewed_once
            a_shutdown_leaves_a_kept_key_and_reports_it
            a_nested_acquire_of_the_same_key_is_refused_at_once
            a_nested_acquire_asks_the_service_nothing
            different_keys_nest
            another_task_is_ordinary_contention
            another_branch_of_a_join_is_ordinary_contention
            a_guard_taken_by_hand_is_ordinary_contention
            another_manager_is_ordinary_contention
            a_body_that_gave_its_lease_back_may_take_the_key_again
            the_current_lease_is_the_innermost_one_of_the_running_body
            waiters_are_served_in_the_order_in_which_they_came
            no_waiter_starves
            waiters_of_one_process_cost_the_service_what_one_does
            waiters_that_nobody_polls_do_not_stop_the_others
            a_shutdown_lets_bodies_end_and_the_next_owner_in
            a_shutdown_takes_the_leases_of_bodies_that_go_on_too_long
            a_shutdown_releases_guards_taken_by_hand
            a_shutdown_refuses_new_acquires
            a_shutdown_ends_waits_at_once
            a_shutdown_with_nothing_to_do_is_over_at_once
            a_shutdown_keeps_what_cancellation_keeps_and_says_so
            a_shutdown_may_be_asked_for_twice
            a_shutdown_goes_on_when_its_caller_has_gone
            a_shutdown_says_what_it_could_not_release
            each_event_is_told_once_and_in_order
            a_subscriber_that_panics_changes_no_outcome
            managers_with_different_prefixes_never_meet
            managers_with_the_same_prefix_meet
        }
    };
    (@write paused $service:expr; $($case:ident)+) => {$(
        #[::tokio::test(start_paused = true)]
        async fn $case() {
            let locks = $crate::conformance::lock::Locks::paused($service).await;
            $crate::conformance::lock::in_time($crate::conformance::lock::$case(&locks)).await;
        }
    )+};
    (@write $service:expr; $($case:ident)+) => {$(
        #[::tokio::test]
        async fn $case() {
            let locks = $crate::conformance::lock::Locks::new($service).await;
            $crate::conformance::lock::in_time($crate::conformance::lock::$case(&locks)).await;
        }
    )+};
}
