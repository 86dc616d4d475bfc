//! Many renewals in one call.

use super::Service;
use super::asking::{LONG, ended, granted, held, key, named, renewed, short};
use crate::claim::{Claim, Renewed};
use crate::testing::claim;

/// A stranger's and an expired claim in a batch are `Gone`, and the others are renewed.
pub async fn a_batch_of_renewals_answers_for_each_claim_by_itself(service: &impl Service) {
    let (one, two, three) = (service.client().await, service.client().await, service.client().await);
    let ttl = short(&one);
    let other = key("other");
    let stranger = claim(&other, LONG);
    let [mine, expired, last] =
        [(LONG, "mine"), (ttl, "expired"), (LONG, "last")].map(|(ttl, name)| claim(&key(name), ttl));
    for claim in [&mine, &last] {
        granted(&one, claim).await;
    }
    granted(&two, &claim(&other, LONG)).await;
    granted(&three, &expired).await;
    drop(ended(service, three, ttl).await);
    let answers = renewed(&one, &[&mine, &stranger, &expired, &last]).await;
    assert!(
        matches!(answers[..], [Renewed::Extended, Renewed::Gone, Renewed::Gone, Renewed::Extended]),
        "{answers:?}"
    );
    held(&one, &stranger).await;
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
