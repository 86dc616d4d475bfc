//! A future that is neither polled nor dropped any more, as behind `select!` on a reference to it.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockrt::{LockPolicy, LossReason};
use lockrt_tests::{Paused, Setup, key, soon};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(3);
const RENEWED: LockPolicy = LockPolicy::new(TTL).renew(Duration::from_secs(3_600));

/// Polls `future` once.
async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_fetches_keeps_others_out_for_two_ttls_at_most() {
    let setup = Paused::start();
    let (manager, others, key) = (setup.manager(), setup.manager(), key("orders:7"));
    let ran = Cell::new(false);
    let mut call = pin!(manager.run(&key, &RENEWED, async |_| ran.set(true)));
    // Its grant comes, and nobody looks.
    assert!(!is_ready(call.as_mut()).await);
    let asked = Instant::now();
    sleep(TTL / 2).await;
    assert_eq!(setup.held().await, 1);
    let next = others.acquire(&key, &RENEWED.wait_forever()).await.unwrap();
    let waited = asked.elapsed();
    assert!(waited >= TTL && waited <= 2 * TTL + Paused::SLACK, "{waited:?}");
    // By then it is too late to begin.
    let late = soon("the end of the call", call).await.unwrap_err();
    assert!(matches!(late, lockrt::LockError::Lost { reason: LossReason::Expired, .. }), "{late:?}");
    assert!(!ran.get());
    next.lease().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_fetched_late_is_renewed_from_then_on() {
    let setup = Paused::start();
    let (manager, key) = (setup.manager(), key("orders:7"));
    let mut acquire = pin!(manager.acquire(&key, &RENEWED));
    assert!(!is_ready(acquire.as_mut()).await);
    sleep(TTL + TTL / 2).await;
    let guard = acquire.await.unwrap();
    sleep(20 * TTL).await;
    guard.lease().check().unwrap();
}
