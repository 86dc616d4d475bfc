//! The ways in which a backend is wrong on purpose, and the case that must notice each.

/// What a backend has to offer, before it is made wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Like one Redis server: fences and wakes; a restart loses everything.
    Plain,
    /// The same with a fair queue, whose head gets the lock by the release before.
    Queueing,
    /// Neither fences nor wakes; a restart keeps everything.
    Bare,
    /// Leases last as long as their clients.
    PerSession,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Queueing, Self::Bare, Self::PerSession];
}

macro_rules! flaws {
    ($($(#[$what:meta])* $flaw:ident: $kind:ident, $case:ident;)+) => {
        /// One way to be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Flaw {
            $($(#[$what])* $flaw,)+
        }

        impl Flaw {
            /// Each with the backend that has it, and the case that it was made for.
            pub(crate) const ALL: &'static [(Self, Kind, &'static str)] =
                &[$((Self::$flaw, Kind::$kind, stringify!($case)),)+];
        }
    };
}

flaws! {
    // Who owns a lock.
    /// A release is a plain `DEL`.
    ReleasesAnybodys: Plain, release_twice_is_harmless_also_when_somebody_else_holds_the_key;
    /// The same, seen by one who never had it.
    ReleasesForStrangers: Plain, releasing_a_claim_that_was_never_granted_spares_the_holder;
    /// The same, seen by one who had it until it expired.
    ReleasesAfterExpiry: Plain, a_release_after_expiry_spares_the_next_holder;
    /// A release answers, and does nothing.
    ReleasesNothing: Plain, release_lets_the_next_one_in_ten_rounds_in_a_row;
    /// A release needs the client that acquired.
    ReleasesOwnGrantsOnly: Plain, releasing_a_grant_that_nobody_saw_frees_it;
    /// A renewal looks at the key alone.
    RenewsAnybodys: Plain, a_stranger_can_neither_release_nor_renew;
    /// A renewal by somebody else is `Gone`, and renews.
    RenewsInSecret: Plain, a_strangers_renewal_does_not_move_the_expiry;
    /// A renewal of the former holder renews for the next one.
    RenewsAfterExpiry: Plain, renewal_after_expiry_spares_the_next_holder;
    /// An acquire overwrites.
    AcquireOverwrites: Plain, a_free_key_is_granted_and_a_second_owner_is_held_at_once;
    /// An acquire reads, and then writes.
    ReadsThenWrites: Plain, of_many_attempts_at_once_one_is_granted;
    /// The same, where nobody asks at the same moment but a crowd all the time.
    ReadsThenWritesAtTimes: Plain, a_hundred_contenders_are_never_two_inside_and_all_get_done;
    /// Two of a hundred owners share a lock.
    SharesAtTimes: Plain, a_counter_under_two_keys_is_exact;

    // Answers.
    /// Contention is an error.
    HeldIsAnError: Plain, a_free_key_is_granted_and_a_second_owner_is_held_at_once;
    /// An acquire waits for the holder.
    WaitsForTheHolder: Plain, a_free_key_is_granted_and_a_second_owner_is_held_at_once;
    /// The same claim once more is contention.
    RepeatIsHeld: Plain, the_same_claim_twice_is_one_grant;
    /// The same claim once more needs one more release.
    CountsRepeats: Plain, a_grant_that_is_confirmed_twice_is_one_grant;
    /// A repeated attempt leaves the expiry as it was.
    RepeatKeepsTheExpiry: Plain, a_repeated_attempt_starts_the_ttl_again;
    /// One claim that is gone makes the whole batch `Gone`.
    GoneForTheWholeBatch: Plain, a_batch_of_renewals_answers_for_each_claim_by_itself;
    /// Answers of large batches are shifted by one.
    ShiftsLargeBatches: Plain, a_large_batch_of_renewals_is_answered_in_order;
    /// Only the first of a batch is answered.
    AnswersTheFirstOnly: Plain, a_batch_of_renewals_answers_for_each_claim_by_itself;
    /// What is left of a lease is told as twice of it.
    TellsTwiceTheTime: Plain, a_waiter_without_a_wake_up_gets_in_when_the_lease_ends;
    /// Each client says something else of its service.
    CapabilitiesDiffer: Plain, all_clients_state_the_same_capabilities;

    // Expiry.
    /// A lease never ends.
    NeverExpires: Plain, expiry_lets_the_next_one_in_and_not_before;
    /// The session never ends.
    SessionsNeverEnd: PerSession, expiry_lets_the_next_one_in_and_not_before;
    /// A failed attempt begins the holder's TTL again.
    FailedAttemptExtends: Plain, failed_attempts_neither_end_nor_extend_a_lease;
    /// A failed attempt leaves an entry.
    FailedAttemptLeavesAnEntry: Plain,
        a_failed_attempt_changes_nothing_for_the_holder_and_leaves_nothing_behind;
    /// A renewal answers, and moves nothing.
    RenewalMovesNothing: Plain, renewal_moves_the_expiry;
    /// A renewal adds its TTL to what is left.
    RenewalAdds: Plain, renewal_sets_the_remaining_time_and_does_not_add_to_it;
    /// A renewal never makes a lease shorter.
    RenewalNeverShortens: Plain, renewal_sets_the_remaining_time_and_does_not_add_to_it;
    /// A renewal takes a key that is free.
    RenewalCreates: Plain, a_renewal_without_a_grant_is_gone_and_takes_nothing;
    /// A renewal takes a key whose lease has ended.
    RenewalRevives: Plain, renewal_after_expiry_is_gone_and_does_not_create_the_key;
    /// A TTL counts in whole seconds, rounded down, and zero ends at once.
    RoundsDown: Plain, expiry_lets_the_next_one_in_and_not_before;
    /// A TTL is at least ten seconds, which the capabilities do not say.
    RoundsUp: Plain, the_shortest_ttl_that_a_backend_states_is_kept;
    /// Says that it can keep a TTL of zero.
    StatesNoShortestTtl: Plain, a_ttl_out_of_bounds_is_refused_before_anything_is_sent;
    /// Any TTL goes, as far as one can count.
    KeepsAnyTtl: Plain, a_claim_that_no_service_could_keep_is_refused;
    /// A renewal for no time deletes the key, and counts as renewed.
    RenewsForNoTime: Plain, a_claim_that_no_service_could_keep_is_refused;

    // Calls that are given up.
    /// `SETNX`, then `EXPIRE`: who dies in between leaves a lock for ever.
    ExpiryComesLater: Plain, an_attempt_given_up_at_any_moment_ends_with_its_ttl;
    /// A mark before the lock, by which the same claim does not know itself again.
    MarksBeforeItTakes: Plain, an_attempt_given_up_at_any_moment_can_be_repeated_and_released;
    /// A renewal takes the lock away and gives it again.
    RenewsByTakingAway: Plain, a_renewal_given_up_at_any_moment_loses_nothing;
    /// A release marks the lock as nobody's, then deletes it.
    ReleasesInTwoSteps: Plain, a_release_given_up_at_any_moment_can_be_repeated;
    /// A wait that is dropped takes the wake-up of the others with it.
    DroppedWaitDeafensOthers: Plain, dropping_a_wait_has_no_effect;

    // Names.
    /// Upper and lower case are the same.
    FoldsCase: Plain, keys_are_independent_of_each_other;
    /// Names end after 32 bytes.
    CutsAt32: Plain, keys_are_independent_of_each_other;
    /// Names end after 255 bytes.
    CutsAt255: Plain, keys_are_independent_of_each_other;
    /// Colons do not count.
    DropsColons: Plain, keys_are_independent_of_each_other;
    /// Blanks at the end do not count.
    TrimsBlanks: Plain, keys_are_independent_of_each_other;

    // Fencing tokens.
    /// A counter that lives in the lock and dies with it.
    FenceDiesWithTheKey: Plain, fencing_tokens_rise_across_owners_releases_and_expiry;
    /// A counter that starts again with the server.
    FenceDiesWithTheData: Plain, fencing_tokens_rise_over_a_restart;
    /// The server's clock alone.
    FenceIsTheClock: Plain, fencing_tokens_rise_under_clock_steps_of_an_hour_each_way;
    /// A claim keeps its first token, whoever had the lock in between.
    FenceStaysWithTheClaim: Plain, a_claim_granted_again_after_others_has_a_greater_token;
    /// A repeated attempt is told a smaller token.
    FenceFallsOnRepeat: Plain, fencing_tokens_are_never_smaller_for_a_repeated_claim;
    /// Says that it fences, and gives no token.
    FencesInWordsOnly: Bare, a_backend_gives_tokens_if_and_only_if_it_says_so;
    /// Says that it does not fence, and gives tokens.
    FencesInSecret: Bare, a_backend_gives_tokens_if_and_only_if_it_says_so;

    // Waiters.
    /// A release tells nobody, though the capabilities say so.
    NeverWakes: Plain, a_waiter_wakes_soon_after_a_release;
    /// Who was refused just before the release, and listens just after it, is not told.
    MissesWhoComesLate: Plain, a_release_at_any_moment_of_a_waiters_round_wakes_it;
    /// A lock is handed on without a new token.
    HandOffDoesNotMint: Queueing, a_grant_that_is_confirmed_late_has_a_later_token;
    /// A lock is handed on without an expiry.
    HandOffNeverEnds: Queueing, a_grant_that_is_never_confirmed_ends_by_itself;
    /// What was handed on is not freed by a release before it is confirmed.
    HandOffOutlivesItsRelease: Queueing, a_waiter_that_gives_up_at_its_turn_frees_the_key;
    /// A waiter that was released is served all the same.
    ServesWhoGaveUp: Queueing, a_released_waiter_stands_in_nobodys_way;
    /// Whoever was refused stands in the queue, waiting or not.
    QueuesEverybody: Queueing, a_failed_attempt_changes_nothing_for_the_holder_and_leaves_nothing_behind;
    /// A release that frees nothing takes the head off the queue.
    ReleaseFreesTheQueuesHead: Queueing, waiters_are_served_in_order_where_the_backend_says_so;
    /// The last comes first, though the capabilities say otherwise.
    ServesTheLastFirst: Queueing, waiters_are_served_in_order_where_the_backend_says_so;
    /// Who asks again goes to the end.
    AskingAgainLosesThePlace: Queueing, waiters_are_served_in_order_where_the_backend_says_so;

    // What stays.
    /// A queue has no expiry.
    QueueNeverExpires: Queueing, nothing_is_stored_without_an_expiry;
    /// A released key leaves an entry.
    ReleaseLeavesAnEntry: Plain, twenty_thousand_keys_leave_nothing_behind;
    /// Every key has a last token of its own, for ever.
    FencePerKey: Plain, twenty_thousand_keys_leave_nothing_behind;

    // Outages.
    /// A service that cannot be reached counts as contention.
    DownIsHeld: Plain, a_service_that_is_down_gives_no_answer_and_is_found_again;
    /// A service that cannot be reached counts as a grant.
    DownIsGranted: Plain, a_service_that_is_down_gives_no_answer_and_is_found_again;
    /// A service that cannot be reached counts as a lost lease.
    DownIsGone: Plain, a_service_that_is_down_gives_no_answer_and_is_found_again;
    /// A service that cannot be reached counts as released.
    DownIsNotHeld: Plain, a_service_that_is_down_gives_no_answer_and_is_found_again;
    /// A client that has lost its connection makes no other.
    NeverReconnects: Plain, a_service_that_is_down_gives_no_answer_and_is_found_again;
    /// A client that has lost its connection does not listen again.
    DeafAfterARestart: Plain, a_waiter_wakes_also_after_a_restart;
    /// A renewal is answered by the client's own reckoning.
    RenewsByReckoning: Plain, a_lease_that_a_restart_has_lost_is_gone_for_its_holder;
    /// A time-out of the backend's own, which counts as contention.
    SilenceIsHeld: Plain, a_paused_service_keeps_nobody_and_is_found_again;
    /// A time-out of the backend's own, though the caller has time.
    TimesOut: Plain, a_slow_service_is_waited_for_as_long_as_the_caller_likes;
    /// A release looks who holds the key, and then deletes it.
    ReleaseLooksFirst: Plain, a_call_that_arrives_as_its_lease_ends_spares_the_next_holder;
    /// A renewal looks who holds the key, and then moves its expiry.
    RenewalLooksFirst: Plain, a_call_that_arrives_as_its_lease_ends_spares_the_next_holder;
    /// A broken connection says that nothing was carried out.
    LostReplyIsNotApplied: Plain, an_attempt_whose_reply_was_lost_is_unknown_and_can_be_repeated;
    /// A broken connection says that the leases are gone.
    LostReplyIsGone: Plain, renewals_whose_reply_was_lost_are_unknown_and_not_gone;
    /// A broken connection counts as released.
    LostReplyIsFreed: Plain, a_release_whose_reply_was_lost_is_unknown_and_can_be_repeated;
    /// A script that the server has forgotten fails the call.
    ForgottenScriptFails: Plain, a_forgetful_service_answers_every_call;
    /// The lock is freed by whoever is told of its release.
    WakingFrees: Plain, a_lost_wake_up_costs_a_bounded_poll_and_no_more;

    // Clocks.
    /// The end of a lease is a time of the client's clock.
    ClientsClockDecides: Plain, a_step_of_the_clients_clock_changes_nothing;
    /// A clock that is put back stands still until it is as late as before.
    ClockNeverGoesBack: Plain, a_lease_taken_after_a_step_of_the_services_clock_ends_in_time;
    /// The holder keeps its lease in its own eyes when the server's clock has ended it.
    ReckonsThroughSteps: Plain, a_step_of_the_services_clock_is_told_truly;
}
