//! When a lease ends.

use std::time::Duration;

use tokio::time::Instant;

use super::Service;
use super::asking::{
    LONG, SHORT, expired, extended, freed, gone, granted, granted_soon, held, key, named, renewed,
};
use crate::backend::contract::Backend;
use crate::claim::{Claim, Renewed};
use crate::policy::LockPolicy;
use crate::testing::claim;

/// Services count in milliseconds, so a lease may seem this much shorter than its TTL.
const ROUNDING: Duration = Duration::from_millis(2);

/// A lease lasts for its TTL, then ends by itself.
pub async fn expiry_lets_the_next_one_in_and_not_before(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("expiry");
    let start = Instant::now();
    granted(&one, &claim(&key, SHORT)).await;
    granted_soon(&two, &claim(&key, LONG)).await;
    let lasted = start.elapsed() + ROUNDING;
    assert!(lasted >= SHORT, "the lease ended after {lasted:?} of {SHORT:?}");
}

/// A lease that is renewed outlives its first TTL.
pub async fn renewal_moves_the_expiry(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("moved");
    let owner = claim(&key, SHORT);
    granted(&one, &owner).await;
    let start = Instant::now();
    while start.elapsed() < SHORT * 3 {
        extended(&one, &owner).await;
        held(&two, &claim(&key, LONG)).await;
        tokio::time::sleep(SHORT / 8).await;
    }
    freed(&one, &owner).await;
}

/// Ten renewals in a row give one TTL, and a shorter one makes the lease shorter.
pub async fn renewal_sets_the_remaining_time_and_does_not_add_to_it(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (added, shortened) = (key("added"), key("shortened"));
    let owner = claim(&added, SHORT);
    granted(&one, &owner).await;
    for _ in 0..10 {
        extended(&one, &owner).await;
    }
    let start = Instant::now();
    granted_soon(&two, &claim(&added, LONG)).await;
    assert!(start.elapsed() < SHORT * 5, "renewals have added up to {:?}", start.elapsed());

    let owner = claim(&shortened, LONG);
    granted(&one, &owner).await;
    extended(&one, &owner.with_ttl(SHORT)).await;
    granted_soon(&two, &claim(&shortened, LONG)).await;
}

/// Nothing brings an ended lease back.
pub async fn renewal_after_expiry_is_gone_and_does_not_create_the_key(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("ended");
    let owner = claim(&key, SHORT);
    granted(&one, &owner).await;
    expired(SHORT).await;
    gone(&one, &owner).await;
    gone(&two, &owner.with_ttl(LONG)).await;
    granted(&two, &claim(&key, LONG)).await;
}

/// A renewal that comes too late does nothing to who holds the key by then.
pub async fn renewal_after_expiry_spares_the_next_holder(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("next");
    let (first, second) = (claim(&key, SHORT), claim(&key, LONG));
    granted(&one, &first).await;
    granted_soon(&two, &second).await;
    gone(&one, &first).await;
    extended(&two, &second).await;
    freed(&two, &second).await;
}

/// A stranger's and an expired claim in a batch are `Gone`, and the others are renewed.
pub async fn a_batch_of_renewals_answers_for_each_claim_by_itself(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (mine, other, ended, last) = (key("mine"), key("other"), key("ended"), key("last"));
    let (mine, stranger, ended, last) =
        (claim(&mine, LONG), claim(&other, LONG), claim(&ended, SHORT), claim(&last, LONG));
    for claim in [&mine, &ended, &last] {
        granted(&one, claim).await;
    }
    granted(&two, &claim(&other, LONG)).await;
    expired(SHORT).await;
    let answers = renewed(&one, &[&mine, &stranger, &ended, &last]).await;
    assert!(
        matches!(answers[..], [Renewed::Extended, Renewed::Gone, Renewed::Gone, Renewed::Extended]),
        "{answers:?}"
    );
    assert!(renewed(&one, &[]).await.is_empty());
}

/// Answers stay with their claims, however the backend cuts the batch into calls.
pub async fn a_large_batch_of_renewals_is_answered_in_order(service: &impl Service) {
    let one = service.client().await;
    let unique = key("batch");
    let numbered = |number: u32| claim(&named(&format!("{}:{number}", unique.as_str())), LONG);
    let claims: Vec<Claim> = (0..1_999).map(numbered).collect();
    // Every third is never granted, so that a shift by one shows.
    for claim in claims.iter().step_by(3).chain(claims.iter().skip(1).step_by(3)) {
        granted(&one, claim).await;
    }
    let answers = renewed(&one, &claims.iter().collect::<Vec<_>>()).await;
    for (place, answer) in answers.iter().enumerate() {
        let right = match place % 3 {
            2 => matches!(answer, Renewed::Gone),
            _ => matches!(answer, Renewed::Extended),
        };
        assert!(right, "claim {place} is {answer:?}");
    }
}

/// The bounds that a backend states are those that locks are checked against.
pub async fn a_ttl_out_of_bounds_is_refused_before_anything_is_sent(service: &impl Service) {
    let one = service.client().await;
    let capabilities = one.capabilities();
    let (shortest, margin) = (capabilities.shortest_ttl(), capabilities.offset_margin());
    assert!(!shortest.is_zero(), "a ttl of zero cannot be kept");
    let check = |ttl| LockPolicy::new(ttl).check(shortest, margin);
    for ttl in [Duration::ZERO, shortest.saturating_sub(Duration::from_millis(1)), margin, Duration::MAX] {
        assert!(check(ttl).is_err(), "{ttl:?} is accepted");
    }
    let least = shortest.max(Duration::from_millis(10)).max(margin * 4);
    assert!(check(least).is_ok());
    granted(&one, &claim(&key("least"), least)).await;
}
