//! Locks that must never meet.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::collections::HashSet;
use std::sync::{Barrier, LazyLock};
use std::time::Duration;

use lockrt::{LockError, LockKey, LockManager, LockPolicy, SetupError, distributed_lock, testing};
use tokio::runtime::Builder;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn a_prefix_that_could_begin_another_one_is_refused() {
    for prefix in ["a", ":", "a:b:", "a:b", "{a}:", "a%:", "a b:", "\u{e9}:", "a\n:"] {
        let refused = LockManager::builder().prefix(prefix).build(lockrt::Memory::new());
        assert!(matches!(refused, Err(SetupError::InvalidPrefix { .. })), "{prefix:?}: {refused:?}");
    }
}

#[test]
fn parallel_tests_with_locks_of_their_own_never_meet() {
    // All hold the same key of the same prefix at the same time, or the barrier never opens.
    let barrier = Barrier::new(4);
    let test = || {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let locks = testing::memory();
            let guard = locks.try_acquire(&KEY, &POLICY).await.unwrap();
            barrier.wait();
            assert!(locks.try_acquire(&KEY, &POLICY).await.unwrap_err().is_contended());
            barrier.wait();
            guard.lease().fencing().unwrap()
        })
    };
    let fences: HashSet<_> = std::thread::scope(|scope| {
        let tests = [(); 4].map(|()| scope.spawn(test));
        tests.map(|test| test.join().unwrap()).into()
    });
    assert!(!fences.is_empty());
}

#[test]
fn locks_of_a_test_without_a_runtime_work_on_any_runtime() {
    let locks = testing::memory();
    for _ in 0..2 {
        let guard = block_on(locks.try_acquire(&KEY, &POLICY)).unwrap();
        assert!(block_on(locks.try_acquire(&KEY, &POLICY)).unwrap_err().is_contended());
        block_on(guard.release());
    }
}

#[distributed_lock(key = "orders:7", ttl_ms = 60_000)]
async fn held_in(locks: &testing::TestLocks) -> Result<usize, LockError> {
    Ok(locks.held())
}

#[tokio::test]
async fn a_default_lasts_until_its_own_guard_is_dropped_in_whatever_order() {
    let (first, second) = (testing::memory(), testing::memory());
    assert_eq!(held_in(&second).await.unwrap(), 1, "the later one overrides");
    drop(first);
    assert_eq!(held_in(&second).await.unwrap(), 1, "its guard is alive");
    drop(second);
    assert!(matches!(neither().await, Err(LockError::NotInstalled)));
}

#[distributed_lock(key = "orders:7", ttl_ms = 60_000)]
async fn neither() -> Result<(), LockError> {
    Ok(())
}
