use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;
use crate::error::Outcome;
use crate::fence::resource::MAX_RESOURCE_BYTES;

const OLD: FencingToken = FencingToken::new(33);
const NEW: FencingToken = FencingToken::new(34);

#[test]
fn after_a_registration_older_holders_neither_register_nor_write() {
    let fence = Fence::new();
    fence.register("row", OLD).unwrap();
    fence.register("row", NEW).unwrap();
    let mut ran = false;
    let refusals = [
        fence.register("row", OLD).unwrap_err(),
        fence.write("row", OLD, || ran = true).unwrap_err(),
        fence.write_once("row", OLD, || ran = true).unwrap_err(),
    ];
    for refused in refusals {
        assert!(refused.is_stale(), "{refused}");
        assert_eq!((refused.offered(), refused.stored()), (Some(OLD), Some(NEW)));
        assert_eq!(refused.outcome(), Outcome::NotApplied);
    }
    assert!(!ran, "a refused write has run");
}

#[test]
fn a_write_refuses_older_holders_and_lets_its_own_write_again() {
    let fence = Fence::new();
    assert_eq!(fence.write("row", NEW, || 1).unwrap(), 1);
    assert_eq!(fence.write("row", NEW, || 2).unwrap(), 2);
    assert!(fence.write("row", OLD, || 3).unwrap_err().is_stale());
}

#[test]
fn one_write_per_grant_registered_or_not() {
    let fence = Fence::new();
    fence.write_once("row", OLD, || ()).unwrap();
    let refused = fence.write_once("row", OLD, || ()).unwrap_err();
    assert!(refused.is_repeated(), "{refused}");
    assert_eq!((refused.offered(), refused.stored()), (Some(OLD), Some(OLD)));
    fence.register("row", NEW).unwrap();
    fence.write_once("row", NEW, || ()).unwrap();
    fence.register("row", NEW).unwrap();
    assert!(fence.write_once("row", NEW, || ()).unwrap_err().is_repeated());
    fence.write("row", NEW, || ()).unwrap();
}

#[test]
fn a_write_of_any_kind_uses_up_the_one_write() {
    let fence = Fence::new();
    fence.write("row", NEW, || ()).unwrap();
    assert!(fence.write_once("row", NEW, || ()).unwrap_err().is_repeated());
}

#[test]
fn resources_do_not_meet() {
    let fence = Fence::new();
    fence.write("a", NEW, || ()).unwrap();
    fence.write("a:b", OLD, || ()).unwrap();
    assert_eq!(fence.len(), 2);
}

#[test]
fn a_write_that_panics_counts_as_done_and_leaves_the_fence_usable() {
    let fence = Fence::new();
    let write = || fence.write("row", NEW, || panic!("on purpose"));
    catch_unwind(AssertUnwindSafe(write)).unwrap_err();
    assert!(fence.write("row", OLD, || ()).unwrap_err().is_stale());
    assert!(fence.write_once("row", NEW, || ()).unwrap_err().is_repeated());
    fence.write("row", NEW, || ()).unwrap();
}

#[test]
fn forgetting_tells_the_last_token_and_lets_older_ones_pass_again() {
    let fence = Fence::new();
    assert_eq!(fence.forget("row").unwrap(), None);
    fence.register("row", NEW).unwrap();
    assert_eq!(fence.forget("row").unwrap(), Some(NEW));
    assert!(fence.is_empty());
    fence.write("row", OLD, || ()).unwrap();
}

#[test]
fn a_fence_inside_of_a_write_is_refused_in_place_of_a_deadlock() {
    let (fence, other) = (Fence::new(), Fence::new());
    fence
        .write("row", OLD, || {
            let nested = [
                fence.write("row", NEW, || ()).unwrap_err(),
                other.register("row", NEW).unwrap_err(),
                fence.forget("row").unwrap_err(),
            ];
            for refused in nested {
                assert!(matches!(refused, FenceError::Invalid(Mistake::Nested)), "{refused}");
            }
        })
        .unwrap();
    fence.write("row", NEW, || ()).unwrap();
}

#[test]
fn what_cannot_be_fenced_is_refused_and_remembered_nowhere() {
    let fence = Fence::new();
    let long = "x".repeat(MAX_RESOURCE_BYTES + 1);
    assert!(matches!(fence.register("", OLD), Err(FenceError::Invalid(Mistake::EmptyResource))));
    let refused = fence.register(&long, OLD).unwrap_err();
    assert!(matches!(refused, FenceError::Invalid(Mistake::LongResource { bytes: 1025 })), "{refused}");
    let refused = fence.write("row", FencingToken::new(0), || panic!("ran")).unwrap_err();
    assert!(matches!(refused, FenceError::Invalid(Mistake::TokenZero)), "{refused}");
    let refused = fence.write("row", None, || panic!("ran")).unwrap_err();
    assert!(matches!(refused, FenceError::NoToken { .. }), "{refused}");
    assert!(fence.is_empty());
    fence.register(&long[1..], FencingToken::new(u64::MAX)).unwrap();
}

#[test]
fn messages_name_both_tokens_and_hide_the_resource() {
    let fence = Fence::new();
    fence.register("mail:jane@example.org", NEW).unwrap();
    let refused = fence.register("mail:jane@example.org", OLD).unwrap_err();
    for text in [refused.to_string(), format!("{refused:?}")] {
        assert!(text.contains("33") && text.contains("34") && text.contains("sha256:"), "{text}");
        assert!(!text.contains("jane"), "{text}");
    }
}

#[test]
fn comparing_and_writing_is_one_step_among_threads() {
    const WRITES: u64 = 2_000;
    let (fence, last, tokens, start) = (Fence::new(), AtomicU64::new(0), AtomicU64::new(1), Barrier::new(4));
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                start.wait();
                for round in 0..WRITES {
                    let token = tokens.fetch_add(1, Ordering::Relaxed);
                    let _ = fence.write("row", FencingToken::new(token), || {
                        // A later token in between would be written over.
                        let before = last.load(Ordering::Relaxed);
                        thread::yield_now();
                        assert!(last.swap(token, Ordering::Relaxed) == before && before < token);
                    });
                    if round % 500 == 0 {
                        let _ = fence.forget("another row");
                    }
                }
            });
        }
    });
    assert!(last.load(Ordering::Relaxed) > WRITES);
}

#[test]
fn forgetting_waits_for_the_write_that_is_under_way() {
    let (fence, under_way, forgetting) = (Fence::new(), Barrier::new(2), Barrier::new(2));
    let ended = AtomicU64::new(0);
    thread::scope(|threads| {
        threads.spawn(|| {
            let write = || {
                under_way.wait();
                forgetting.wait();
                thread::yield_now();
                ended.store(1, Ordering::Release);
            };
            fence.write("row", OLD, write).unwrap();
        });
        under_way.wait();
        forgetting.wait();
        assert_eq!(fence.forget("row").unwrap(), Some(OLD));
        assert_eq!(ended.load(Ordering::Acquire), 1);
    });
}
