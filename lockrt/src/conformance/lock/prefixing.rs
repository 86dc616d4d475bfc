//! Managers with different prefixes never meet.

use super::Locks;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key};
use crate::key::LockKey;
use crate::manager::LockManager;
use crate::policy::LockPolicy;

const POLICY: LockPolicy = LockPolicy::new(LONG);
const PREFIXES: [&str; 6] = ["a:", "ab:", "b:", "a.b:", "A:", "a/b:"];

/// Whatever their keys are: all of them are held at the same time.
pub async fn managers_with_different_prefixes_never_meet(locks: &Locks<impl Service>) {
    let (keys, mut guards) = (keys(), Vec::new());
    for prefix in PREFIXES {
        let manager = locks.built(LockManager::builder().prefix(prefix), locks.client().await);
        for key in &keys {
            let guard = manager.try_acquire(key, &POLICY).await;
            guards.push(guard.unwrap_or_else(|met| panic!("{prefix} {}: {met}", key.as_str())));
        }
    }
    assert_eq!(guards.len(), PREFIXES.len() * keys.len());
    assert!(guards.iter().all(|guard| guard.lease().check().is_ok()));
}

/// The same prefix is the same lock, in another process too; no prefix is one of its own.
pub async fn managers_with_the_same_prefix_meet(locks: &Locks<impl Service>) {
    for prefix in PREFIXES.into_iter().chain([""]) {
        let builder = || LockManager::builder().prefix(prefix);
        let first = locks.built(builder(), locks.client().await);
        let second = locks.built(builder(), locks.client().await);
        for key in keys() {
            let guard = first.try_acquire(&key, &POLICY).await.unwrap();
            let refusal = second.try_acquire(&key, &POLICY).await.unwrap_err();
            assert!(refusal.is_contended(), "{prefix} {}: {refusal:?}", key.as_str());
            guard.release().await;
        }
    }
}

/// Keys that look like another prefix and another key, each in another way.
fn keys() -> Vec<LockKey> {
    // Unlike those of any other run on the same server.
    let own = key("c");
    let own = own.as_str();
    let long = "x".repeat(300);
    let texts = [
        own.to_owned(),
        format!("b:{own}"),
        format!(":{own}"),
        format!("a:{own}"),
        format!("b::{own}"),
        format!("/b:{own}"),
        format!("%3A{own}"),
        format!("%25h{own}"),
        format!("{{{own}}}"),
        format!("a:{{b}}:{own}"),
        format!("{own}{long}"),
        format!("b:{own}{long}"),
    ];
    texts.into_iter().map(|text| LockKey::new(text).unwrap()).collect()
}
