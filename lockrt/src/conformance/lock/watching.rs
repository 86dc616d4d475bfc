//! Waiting for a condition, with a deadline in place of a bare sleep.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::conformance::asking::SOON;
use crate::manager::LockManager;

/// Runs a case for two minutes at most: what is wrong may be that something never ends.
///
/// # Cancellation
///
/// Leaves locks behind.
pub async fn in_time(case: impl Future<Output = ()>) {
    const MOST: Duration = Duration::from_secs(120);
    assert!(timeout(MOST, case).await.is_ok(), "the case has not ended after {MOST:?}");
}

/// Asks again and again until `condition` is true.
pub(super) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {SOON:?} in vain until {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the keeper of a manager that nobody uses any more has nothing left to do.
pub(super) async fn settled(manager: LockManager, case: &str) {
    const PATIENCE: Duration = Duration::from_secs(20);
    let asked = Instant::now();
    let report = manager.shutdown(PATIENCE).await;
    assert!(report.is_clean(), "{case}: {report}");
    assert!(asked.elapsed() < PATIENCE, "{case}: a lock was taken away that nobody gave back");
}

/// Runs what blocks its thread, or ends a runtime, on a thread of its own.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = oneshot::channel();
    let runs = move || drop(tell.send(catch_unwind(AssertUnwindSafe(work))));
    let spawned = thread::Builder::new().spawn(runs);
    assert!(spawned.is_ok(), "the system gives no thread");
    match told.await.expect("a thread ends with a word") {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs all of them at the same time.
pub(super) async fn together<F: Future<Output = ()>>(cases: impl IntoIterator<Item = F>) {
    let mut running: Vec<_> = cases.into_iter().map(Box::pin).collect();
    poll_fn(|cx| {
        running.retain_mut(|case| case.as_mut().poll(cx).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
