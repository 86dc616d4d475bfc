//! What a backend says of itself, and TTLs that nobody can keep.

use std::time::Duration;

use tokio::time::Instant;

use super::Service;
use super::asking::{LONG, ROUNDING, extended, granted, granted_within, held, key, renewed};
use crate::backend::contract::Backend;
use crate::claim::{Expiry, Renewed};
use crate::error::Outcome;
use crate::policy::LockPolicy;
use crate::testing::claim;

/// The bounds that a backend states are those that locks are checked against, before any call.
pub async fn a_ttl_out_of_bounds_is_refused_before_anything_is_sent(service: &impl Service) {
    let one = service.client().await;
    let capabilities = one.capabilities();
    let (shortest, margin) = (capabilities.shortest_ttl(), capabilities.offset_margin());
    assert!(!shortest.is_zero(), "a ttl of zero cannot be kept");
    let check = |ttl| LockPolicy::new(ttl).check(shortest, margin);
    for ttl in [Duration::ZERO, shortest.saturating_sub(Duration::from_millis(1)), margin, Duration::MAX] {
        assert!(check(ttl).is_err(), "{ttl:?} is accepted");
    }
    assert!(check(shortest.max(Duration::from_millis(10)).max(margin * 4)).is_ok());
}

/// A lease of the shortest TTL lasts that long, and ends.
pub async fn the_shortest_ttl_that_a_backend_states_is_kept(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, capabilities) = (key("shortest"), *one.capabilities());
    let least = capabilities.shortest_ttl().max(Duration::from_millis(10));
    let start = Instant::now();
    granted(&one, &claim(&key, least)).await;
    if capabilities.expiry() == Expiry::PerSession {
        drop(one);
        granted_within(least, &two, &claim(&key, LONG)).await;
        return;
    }
    granted_within(least, &two, &claim(&key, LONG)).await;
    let lasted = start.elapsed() + ROUNDING;
    assert!(lasted >= least, "the lease ended after {lasted:?} of {least:?}");
}

/// No lock asks for a TTL of nothing or of ages, so a claim that does is a mistake which a backend
/// refuses without asking its service. A service might free the lock at once, or never.
pub async fn a_claim_that_no_service_could_keep_is_refused(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    for ttl in [Duration::ZERO, Duration::MAX] {
        let key = key("unusable");
        match one.try_acquire(&claim(&key, ttl)).await {
            Err(error) => assert_eq!(error.outcome(), Outcome::NotApplied, "{error}"),
            Ok(attempt) => panic!("a ttl of {ttl:?} is answered by {attempt:?}"),
        }
        let owner = claim(&key, LONG);
        granted(&one, &owner).await;
        let answers = renewed(&one, &[&owner.with_ttl(ttl)]).await;
        assert!(matches!(&answers[..], [Renewed::Unknown(_)]), "a ttl of {ttl:?} is {answers:?}");
        held(&two, &claim(&key, LONG)).await;
        extended(&one, &owner).await;
    }
}

/// All clients of one service say the same of it, whenever they are asked.
pub async fn all_clients_state_the_same_capabilities(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let stated = *one.capabilities();
    assert!(!stated.name().is_empty());
    granted(&one, &claim(&key("stated"), LONG)).await;
    assert_eq!(*one.capabilities(), stated);
    assert_eq!(*two.capabilities(), stated);
}
