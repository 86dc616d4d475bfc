//! Which keys are the same lock.

use super::Service;
use super::asking::{LONG, freed, granted, held, key, named};
use crate::claim::Claim;
use crate::key::{InvalidKey, LockKey};
use crate::testing::claim;

/// Every pair of these would be one lock on a backend that cuts, folds or reads names.
const NAMES: [&str; 37] = [
    "a",
    "A",
    "a:b",
    "ab",
    "a:",
    ":a",
    "a:b:c",
    "a/b",
    "a/",
    "/a",
    "/",
    ".",
    "..",
    "a.",
    "a b",
    "a ",
    " a",
    "a_b",
    "a-b",
    "a.b",
    "a+b",
    "a\\b",
    "a%b",
    "%",
    "}",
    "}a",
    "{a}",
    "{a}b",
    "'",
    "\"",
    "a'b\"c",
    "a*",
    "a?",
    "é",
    "e\u{301}",
    "日本語",
    "🔒",
];

/// Each key of a nasty list can be held at the same time as all others.
pub async fn keys_are_independent_of_each_other(service: &impl Service) {
    let (one, two) = (service.client().await, service.client().await);
    let unique = key("names");
    let mut names: Vec<String> = NAMES.iter().map(|name| format!("{name}:{}", unique.as_str())).collect();
    names.extend(NAMES.iter().map(|name| format!("{}:{name}", unique.as_str())));
    for length in [255, 256, 1_000] {
        names.push(format!("{}{}", unique.as_str(), "x".repeat(length - unique.as_str().len())));
        names.push(format!("{}{}y", unique.as_str(), "x".repeat(length - unique.as_str().len() - 1)));
    }
    let claims: Vec<Claim> = names.iter().map(|name| claim(&named(name), LONG)).collect();
    for claim in &claims {
        granted(&one, claim).await;
    }
    for name in &names {
        held(&two, &claim(&named(name), LONG)).await;
    }
    for (freed_by_now, released) in claims.iter().enumerate() {
        freed(&two, released).await;
        if let Some(next) = claims.get(freed_by_now + 1) {
            held(&two, &claim(next.key(), LONG)).await;
        }
    }
}

/// Some services would cut the name there.
#[allow(clippy::unused_async, reason = "cases have one form")]
pub async fn a_key_with_nul_is_refused(_service: &impl Service) {
    assert_eq!(LockKey::new("a\0b"), Err(InvalidKey::Nul));
}
