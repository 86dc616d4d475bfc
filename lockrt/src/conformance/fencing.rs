//! Fencing tokens: a later grant has a greater one.

use super::Service;
use super::asking::{LONG, ended, extended, freed, granted, granted_within, held, key, rises, short};
use crate::backend::contract::Backend;
use crate::testing::claim;

/// Tokens rise with every grant, whatever ended the grant before.
pub async fn fencing_tokens_rise_across_owners_releases_and_expiry(service: &impl Service) {
    let (mut one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("fence"), short(&one));
    let mut last = None;
    for _ in 0..10 {
        for client in [&one, &two] {
            let owner = claim(&key, LONG);
            let token = granted(client, &owner).await;
            rises(last, token);
            last = token;
            freed(client, &owner).await;
        }
    }
    for _ in 0..2 {
        let token = granted_within(ttl, &one, &claim(&key, ttl)).await;
        rises(last, token);
        last = token;
        one = ended(service, one, ttl).await;
    }
    rises(last, granted_within(ttl, &two, &claim(&key, LONG)).await);
}

/// The newest answer's token counts, so it is never below an earlier one; renewals change nothing.
pub async fn fencing_tokens_are_never_smaller_for_a_repeated_claim(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, others) = (key("repeat"), key("others"));
    let owner = claim(&key, LONG);
    let mut tokens = Vec::new();
    for _ in 0..10 {
        tokens.push(granted(&one, &owner).await);
        extended(&one, &owner).await;
        let other = claim(&others, LONG);
        granted(&two, &other).await;
        freed(&two, &other).await;
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
    freed(&one, &owner).await;
    let next = granted(&two, &claim(&key, LONG)).await;
    assert!(next.is_none() || tokens.iter().all(|token| *token < next), "{tokens:?} {next:?}");
}

/// An attempt that is repeated after others had the lock is a new grant, and has a new token.
pub async fn a_claim_granted_again_after_others_has_a_greater_token(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let (key, ttl) = (key("returns"), short(&one));
    let owner = claim(&key, ttl);
    let mut last = granted(&one, &owner).await;
    let one = ended(service, one, ttl).await;
    for _ in 0..2 {
        let other = claim(&key, LONG);
        let token = granted_within(ttl, &two, &other).await;
        rises(last, token);
        held(&one, &owner).await;
        freed(&two, &other).await;
        let again = granted(&one, &owner).await;
        rises(token, again);
        last = again;
        freed(&one, &owner).await;
    }
}

/// What a backend says of itself is what it does.
pub async fn a_backend_gives_tokens_if_and_only_if_it_says_so(service: &impl Service) {
    let one = service.client().await;
    for _ in 0..2 {
        let owner = claim(&key("says"), LONG);
        for _ in 0..2 {
            let token = granted(&one, &owner).await;
            assert_eq!(token.is_some(), one.capabilities().can_fence());
        }
    }
}
