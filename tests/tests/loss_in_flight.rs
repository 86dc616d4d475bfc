//! What becomes of work that a body has begun, when its lease is lost or its caller goes away.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::RefCell;
use std::future::pending;
use std::sync::mpsc;
use std::time::Duration;

use lockrt::{Clock, LockError, LockManager, LockPolicy, Memory, distributed_lock, testing};
use lockrt_tests::{key, soon};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(15);

async fn says_so_later(done: oneshot::Sender<()>) {
    sleep(LONG).await;
    let _ = done.send(());
}

#[distributed_lock(key = "export", ttl_ms = 10_000)]
async fn spawns(done: oneshot::Sender<()>) -> Result<(), LockError> {
    tokio::spawn(says_so_later(done));
    pending().await
}

#[distributed_lock(key = "export", ttl_ms = 10_000)]
async fn spawns_in_a_set(done: oneshot::Sender<()>) -> Result<(), LockError> {
    let mut tasks = JoinSet::new();
    tasks.spawn(says_so_later(done));
    pending().await
}

#[distributed_lock(key = "export", ttl_ms = 10_000, lease = lease)]
async fn blocks(go: mpsc::Receiver<()>, told: oneshot::Sender<bool>) -> Result<(), LockError> {
    let lease = lease.clone();
    let work = tokio::task::spawn_blocking(move || {
        go.recv().unwrap();
        told.send(lease.check().is_err_and(|refusal| refusal.is_lost())).unwrap();
    });
    work.await.unwrap();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_spawned_task_goes_on_without_the_lock() {
    let locks = testing::memory();
    let (done, ends) = oneshot::channel();
    assert!(spawns(done).await.is_err_and(|refusal| refusal.is_lost()));
    // The next owner is there while the task works.
    let next = locks.try_acquire(&key("export"), &LockPolicy::new(LONG * 2)).await.unwrap();
    ends.await.unwrap();
    next.lease().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_in_a_set_of_the_body_ends_with_the_body() {
    let _locks = testing::memory();
    let (done, ends) = oneshot::channel();
    assert!(spawns_in_a_set(done).await.is_err_and(|refusal| refusal.is_lost()));
    assert!(ends.await.is_err(), "it was aborted");
}

#[tokio::test]
async fn a_blocking_task_goes_on_without_the_lock() {
    let locks = testing::memory();
    let ((go, goes), (told, hears)) = (mpsc::channel(), oneshot::channel());
    let lost = async {
        while locks.held() == 0 {
            tokio::task::yield_now().await;
        }
        locks.lose(&key("export")).await;
    };
    let (ended, ()) = tokio::join!(blocks(goes, told), lost);
    assert!(ended.is_err_and(|refusal| refusal.is_lost()));
    let next = locks.try_acquire(&key("export"), &LockPolicy::new(LONG)).await.unwrap();
    go.send(()).unwrap();
    assert!(soon("the task", hears).await.unwrap(), "its lease says so");
    next.lease().check().unwrap();
}

/// Notes when it is dropped whether the lock is held.
struct Looks<'a>(&'a Memory, &'a RefCell<Vec<usize>>);

impl Drop for Looks<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0.held());
    }
}

#[distributed_lock(key = "import", ttl_ms = 10_000, manager = manager)]
async fn with_locals(
    manager: &LockManager,
    memory: &Memory,
    held: &RefCell<Vec<usize>>,
    work: Duration,
) -> Result<(), LockError> {
    let _outer = Looks(memory, held);
    let _inner = Looks(memory, held);
    sleep(work).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn locals_are_dropped_before_the_key_is_released() {
    for (work, patience) in [(TTL / 2, LONG), (LONG, LONG), (LONG, TTL / 2)] {
        let memory = Memory::on(Clock::tokio());
        let (manager, held) = (testing::manager(memory.clone()), RefCell::default());
        let ended = timeout(patience, with_locals(&manager, &memory, &held, work)).await;
        assert_eq!(*held.borrow(), [1, 1], "{work:?} {patience:?}: {ended:?}");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(memory.held(), 0, "{work:?} {patience:?}");
    }
}
