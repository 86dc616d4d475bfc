//! Fencing tokens: a later grant has a greater one.

use super::Service;
use super::asking::{LONG, SHORT, extended, freed, granted, granted_soon, key};
use crate::backend::contract::Backend;
use crate::testing::claim;

/// Tokens rise with every grant, whatever ended the grant before.
pub async fn fencing_tokens_rise_across_owners_releases_and_expiry(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let key = key("fence");
    let mut tokens = Vec::new();
    for _ in 0..10 {
        for client in [&one, &two] {
            let owner = claim(&key, LONG);
            tokens.push(granted(client, &owner).await);
            freed(client, &owner).await;
        }
    }
    for client in [&one, &two] {
        tokens.push(granted_soon(client, &claim(&key, SHORT)).await.1);
    }
    if one.capabilities().can_fence() {
        assert!(tokens.iter().all(Option::is_some));
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
    }
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

/// What a backend says of itself is what it does.
pub async fn a_backend_gives_tokens_if_and_only_if_it_says_so(service: &impl Service) {
    let one = service.client().await;
    let token = granted(&one, &claim(&key("says"), LONG)).await;
    assert_eq!(token.is_some(), one.capabilities().can_fence());
}
