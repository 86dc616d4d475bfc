//! Clocks that are stepped: the service's own, and those of its clients.

use tokio::time::{Instant, sleep};

use super::asking::{
    LONG, ROUNDING, attempted, extended, freed, gone, granted, granted_within, held, key, not_held, rises,
    short,
};
use super::{Fault, Power};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Expiry};
use crate::testing::claim;

/// Tokens rise while the service's clock is ahead by an hour, and after it was put back.
pub async fn fencing_tokens_rise_under_clock_steps_of_an_hour_each_way(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let (lock, mut last) = (key("stepped"), None);
    for round in 0..6 {
        for client in [&one, &two, &one] {
            let owner = claim(&lock, LONG);
            let token = granted(client, &owner).await;
            rises(last, token);
            last = granted(client, &owner).await;
            assert!(token <= last, "{last:?} for the claim that had {token:?}");
            freed(client, &owner).await;
        }
        if round % 2 == 0 {
            service.inflict(Fault::ClockAhead).await;
        } else {
            service.heal().await;
        }
    }
}

/// A step may end a lease, or make it longer for others; holder and contenders hear the same of it.
pub async fn a_step_of_the_services_clock_is_told_truly(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    for ahead in [true, false] {
        let lock = key("told");
        let (holder, other) = (claim(&lock, LONG), claim(&lock, LONG));
        let first = granted(&one, &holder).await;
        if ahead {
            service.inflict(Fault::ClockAhead).await;
        } else {
            service.heal().await;
        }
        if let Attempt::Granted { fencing } = attempted(&two, &other).await {
            rises(first, fencing);
            gone(&one, &holder).await;
            not_held(&one, &holder).await;
            extended(&two, &other).await;
        } else {
            extended(&one, &holder).await;
            let free_in = held(&two, &other).await;
            assert!(free_in.is_none_or(|free_in| free_in <= LONG), "{free_in:?} after a renewal");
            freed(&one, &holder).await;
            rises(first, granted(&two, &other).await);
        }
    }
}

/// A lease taken or renewed after a step lasts for its TTL, whichever way the step went.
pub async fn a_lease_taken_after_a_step_of_the_services_clock_ends_in_time(service: &impl Power) {
    service.inflict(Fault::ClockAhead).await;
    a_lease_lasts_for_its_ttl(service).await;
    service.heal().await;
    a_lease_lasts_for_its_ttl(service).await;
}

/// What time it is for the clients has no part in anything.
pub async fn a_step_of_the_clients_clock_changes_nothing(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let lock = key("client");
    let holder = claim(&lock, LONG);
    let mut last = granted(&one, &holder).await;
    for ahead in [true, false, true] {
        if ahead {
            service.inflict(Fault::ClientAhead).await;
        } else {
            service.heal().await;
        }
        let late = service.client().await;
        for client in [&two, &late] {
            let free_in = held(client, &claim(&lock, LONG)).await;
            assert!(free_in.is_none_or(|free_in| free_in <= LONG), "{free_in:?} are left of {LONG:?}");
        }
        extended(&one, &holder).await;
        a_lease_lasts_for_its_ttl(service).await;
        let again = granted(&one, &holder).await;
        assert!(last <= again, "{again:?} for the claim that had {last:?}");
        last = again;
    }
    freed(&one, &holder).await;
    rises(last, granted(&two, &claim(&lock, LONG)).await);
    service.heal().await;
}

/// A lease that was renewed lasts for its TTL from then on, and ends.
async fn a_lease_lasts_for_its_ttl(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let (lock, ttl) = (key("lasts"), short(&one));
    let owner = claim(&lock, ttl);
    granted(&one, &owner).await;
    sleep(ttl / 4).await;
    let start = Instant::now();
    extended(&one, &owner).await;
    let per_claim = one.capabilities().expiry() == Expiry::PerClaim;
    drop(one);
    granted_within(ttl, &two, &claim(&lock, LONG)).await;
    let lasted = start.elapsed() + ROUNDING;
    assert!(lasted >= ttl || !per_claim, "the lease ended after {lasted:?} of {ttl:?}");
}
