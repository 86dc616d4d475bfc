//! The list of the cases, and what is made of it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::{Fault, Power, Service};

type Ending<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One case of the suite, for those who run it by other means than
/// [`conformance_tests!`](crate::conformance_tests).
pub struct Case<S> {
    name: &'static str,
    fault: Option<Fault>,
    run: for<'a> fn(&'a S) -> Ending<'a>,
}

impl<S> Case<S> {
    /// Its name, a sentence: that of its function and of its test.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The fault that it inflicts; none if it needs no power over the service.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Runs it on a service, which it may leave in any state. It needs a tokio runtime with time.
    ///
    /// # Panics
    ///
    /// If the backend is wrong.
    ///
    /// # Cancellation
    ///
    /// Leaves locks and faults behind.
    pub async fn run(&self, service: &S) {
        (self.run)(service).await;
    }
}

impl<S> fmt::Debug for Case<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("fault", &self.fault).finish_non_exhaustive()
    }
}

/// The one list of the cases. Each group goes to the macro between brackets, behind what follows.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    (plain [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        a_free_key_is_granted_and_a_second_owner_is_held_at_once
        of_many_attempts_at_once_one_is_granted
        a_failed_attempt_changes_nothing_for_the_holder_and_leaves_nothing_behind
        failed_attempts_neither_end_nor_extend_a_lease
        the_same_claim_twice_is_one_grant
        a_repeated_attempt_starts_the_ttl_again
        release_lets_the_next_one_in_ten_rounds_in_a_row
        release_twice_is_harmless_also_when_somebody_else_holds_the_key
        a_release_after_expiry_spares_the_next_holder
        releasing_a_grant_that_nobody_saw_frees_it
        releasing_a_claim_that_was_never_granted_spares_the_holder
        a_stranger_can_neither_release_nor_renew
        a_strangers_renewal_does_not_move_the_expiry
        a_renewal_without_a_grant_is_gone_and_takes_nothing
        expiry_lets_the_next_one_in_and_not_before
        renewal_moves_the_expiry
        renewal_sets_the_remaining_time_and_does_not_add_to_it
        renewal_after_expiry_is_gone_and_does_not_create_the_key
        renewal_after_expiry_spares_the_next_holder
        a_batch_of_renewals_answers_for_each_claim_by_itself
        a_large_batch_of_renewals_is_answered_in_order
        a_ttl_out_of_bounds_is_refused_before_anything_is_sent
        the_shortest_ttl_that_a_backend_states_is_kept
        a_claim_that_no_service_could_keep_is_refused
        all_clients_state_the_same_capabilities
        keys_are_independent_of_each_other
        a_key_with_nul_is_refused
        fencing_tokens_rise_across_owners_releases_and_expiry
        fencing_tokens_are_never_smaller_for_a_repeated_claim
        a_claim_granted_again_after_others_has_a_greater_token
        a_backend_gives_tokens_if_and_only_if_it_says_so
        a_released_waiter_stands_in_nobodys_way
        a_grant_that_is_confirmed_late_has_a_later_token
        a_grant_that_is_confirmed_twice_is_one_grant
        a_grant_that_is_never_confirmed_ends_by_itself
        a_waiter_that_gives_up_at_its_turn_frees_the_key
        waiters_are_served_in_order_where_the_backend_says_so
        a_waiter_wakes_soon_after_a_release
        a_release_at_any_moment_of_a_waiters_round_wakes_it
        dropping_a_wait_has_no_effect
        a_waiter_without_a_wake_up_gets_in_when_the_lease_ends
        an_attempt_given_up_at_any_moment_can_be_repeated_and_released
        an_attempt_given_up_at_any_moment_ends_with_its_ttl
        a_renewal_given_up_at_any_moment_loses_nothing
        a_release_given_up_at_any_moment_can_be_repeated
        a_counter_under_two_keys_is_exact
        a_hundred_contenders_are_never_two_inside_and_all_get_done
        nothing_is_stored_without_an_expiry
        twenty_thousand_keys_leave_nothing_behind
    } };
    (long [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "takes minutes; cargo test -- --ignored a_million_keys_leave_nothing_behind"]
        a_million_keys_leave_nothing_behind
    } };
    (Down [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: this service cannot be taken down"]
        a_service_that_is_down_gives_no_answer_and_is_found_again
        a_lease_that_a_restart_has_lost_is_gone_for_its_holder
        a_waiter_wakes_also_after_a_restart
        fencing_tokens_rise_over_a_restart
    } };
    (Paused [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: this service cannot be paused"]
        a_paused_service_keeps_nobody_and_is_found_again
    } };
    (Slow [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: this service cannot be made slow"]
        a_slow_service_is_waited_for_as_long_as_the_caller_likes
    } };
    (ReplyLost [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: no reply of this service can be lost on purpose"]
        an_attempt_whose_reply_was_lost_is_unknown_and_can_be_repeated
        renewals_whose_reply_was_lost_are_unknown_and_not_gone
        a_release_whose_reply_was_lost_is_unknown_and_can_be_repeated
    } };
    (Forgetful [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: this service cannot be made to forget scripts or caches"]
        a_forgetful_service_answers_every_call
    } };
    (NoWakeUps [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: no wake-up of this service can be lost on purpose"]
        a_lost_wake_up_costs_a_bounded_poll_and_no_more
    } };
    (ClockAhead [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: the clock of this service cannot be stepped"]
        fencing_tokens_rise_under_clock_steps_of_an_hour_each_way
        a_step_of_the_services_clock_is_told_truly
        a_lease_taken_after_a_step_of_the_services_clock_ends_in_time
    } };
    (ClientAhead [$($then:tt)+] $($with:tt)*) => { $($then)+! { $($with)*
        #[ignore = "not offered: the clock of these clients cannot be stepped"]
        a_step_of_the_clients_clock_changes_nothing
    } };
}

macro_rules! listed {
    ($fault:expr; $(#[$note:meta])* $($name:ident)+) => {
        vec![$(Case { name: stringify!($name), fault: $fault, run: |service| Box::pin(super::$name(service)) }),+]
    };
}

/// The cases that need no power over the service, in the order of the suite.
#[must_use]
pub fn cases<S: Service>() -> Vec<Case<S>> {
    conformance_cases! { plain [listed] None; }
}

/// The cases that inflict `fault`.
#[must_use]
pub fn cases_under<S: Power>(fault: Fault) -> Vec<Case<S>> {
    match fault {
        Fault::Down => conformance_cases! { Down [listed] Some(fault); },
        Fault::Paused => conformance_cases! { Paused [listed] Some(fault); },
        Fault::Slow => conformance_cases! { Slow [listed] Some(fault); },
        Fault::ReplyLost => conformance_cases! { ReplyLost [listed] Some(fault); },
        Fault::Forgetful => conformance_cases! { Forgetful [listed] Some(fault); },
        Fault::NoWakeUps => conformance_cases! { NoWakeUps [listed] Some(fault); },
        Fault::ClockAhead => conformance_cases! { ClockAhead [listed] Some(fault); },
        Fault::ClientAhead => conformance_cases! { ClientAhead [listed] Some(fault); },
    }
}

/// Writes one `#[tokio::test]` per case of the [suite](crate::conformance).
///
/// ```
/// // A service over which the tests have no power: the cases that need it are listed as ignored,
/// // each with the reason.
/// lockrt::conformance_tests!(lockrt::Memory::new(), power = none);
/// # fn main() {}
/// ```
///
/// The expressions are evaluated for each case, and may `.await`. Where there is
/// [`Power`](crate::conformance::Power) over the service, a second one says how the cases that use it
/// get theirs, and each [`Fault`](crate::conformance::Fault) is put on a list:
///
/// ```text
/// lockrt::conformance_tests!(
///     Server::start().await,
///     power = Server::start().await,
///     can = [Down, Paused, Slow, ReplyLost, NoWakeUps],
///     cannot = [Forgetful, ClockAhead, ClientAhead], // listed as ignored, each with the reason
/// );
/// ```
///
/// A third list, `elsewhere = [..]`, takes faults whose cases the author runs by other means, such as
/// a process of their own; [`cases_under`](crate::conformance::cases_under) gives them.
///
/// The crate it stands in needs tokio with the features `macros`, `rt` and `time`.
#[macro_export]
macro_rules! conformance_tests {
    ($service:expr, power = none $(,)?) => {
        $crate::conformance_tests! { @plain $service }
        $crate::conformance_tests! {
            @cannot Down Paused Slow ReplyLost Forgetful NoWakeUps ClockAhead ClientAhead
        }
    };
    (
        $service:expr, power = $power:expr, can = [$($can:ident),* $(,)?], cannot = [$($cannot:ident),* $(,)?]
        $(, elsewhere = [$($elsewhere:ident),* $(,)?])? $(,)?
    ) => {
        const _: () = {
            use $crate::conformance::Fault;
            assert!(
                Fault::are_each_stated_once(&[
                    $(Fault::$can,)* $(Fault::$cannot,)* $($(Fault::$elsewhere,)*)?
                ]),
                "name each fault once, under `can`, `cannot` or `elsewhere`"
            );
        };
        $crate::conformance_tests! { @plain $service }
        $crate::conformance_tests! { @can [$power] $($can)* }
        $crate::conformance_tests! { @cannot $($cannot)* }
    };
    (@plain $service:expr) => {
        $crate::conformance_cases! { plain [$crate::conformance_tests] @write $service; }
        $crate::conformance_cases! { long [$crate::conformance_tests] @long $service; }
    };
    (@can [$power:expr] $($fault:ident)*) => {$(
        $crate::conformance_cases! { $fault [$crate::conformance_tests] @write $power; }
    )*};
    (@cannot $($fault:ident)*) => {$(
        $crate::conformance_cases! { $fault [$crate::conformance_tests] @ignore }
    )*};
    (@write $service:expr; $(#[$not_offered:meta])? $($case:ident)+) => {$(
        #[::tokio::test]
        async fn $case() {
            let service = $service;
            $crate::conformance::$case(&service).await;
        }
    )+};
    (@long $service:expr; #[$long:meta] $case:ident) => {
        #[::tokio::test]
        #[$long]
        async fn $case() {
            let service = $service;
            $crate::conformance::$case(&service).await;
        }
    };
    (@ignore #[$not_offered:meta] $($case:ident)+) => {$(
        #[test]
        #[$not_offered]
        fn $case() {
            panic!("this service does not offer what the case needs, so nothing is known");
        }
    )+};
    ($service:expr $(,)?) => {
        ::core::compile_error!(
            "say which power the tests have over the service: `power = none`, or a second service and what can be done to it"
        );
    };
}
