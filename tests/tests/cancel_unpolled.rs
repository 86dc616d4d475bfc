//! A future that is neither polled nor dropped any more, as behind `select!` on a reference to it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that cannot go on has failed")]

use std::cell::Cell;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use lockrt::LockPolicy;
use lockrt_tests::{Paused, Setup, key};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(3);
const RENEWED: LockPolicy = LockPolicy::new(TTL).renew(Duration::from_secs(3_600));

/// Polls `future` so often, each time that it is woken; whether it had ended by then.
async fn ends_within(polls: usize, mut future: Pin<&mut impl Future>) -> bool {
    let mut left = polls;
    poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What `future` gives by then.
async fn soon_after<T, E: Debug>(time: Duration, future: impl Future<Output = Result<T, E>>) -> T {
    timeout(time + Paused::SLACK, future).await.expect("it comes in time").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_polls_any_more_keeps_others_out_for_two_ttls_at_most() {
    let mut outlived = 0;
    for polls in 1..12 {
        let setup = Paused::start();
        let (manager, others, key) = (setup.manager(), setup.manager(), key("orders:7"));
        let holder = others.acquire(&key, &RENEWED).await.unwrap();
        let (ran, policy) = (Cell::new(0), RENEWED.wait_forever());
        let mut call = pin!(manager.run(&key, &policy, async |_| ran.set(ran.get() + 1)));
        let frees = async {
            sleep(TTL / 10).await;
            holder.release().await
        };
        let (ended, _) = tokio::join!(ends_within(polls, call.as_mut()), frees);
        if ended {
            break;
        }
        let asked = Instant::now();
        let next = soon_after(2 * TTL, others.acquire(&key, &policy)).await;
        outlived += usize::from(asked.elapsed() >= TTL);
        // By now it is too late to begin: it has lost its turn or its lease.
        let begun = ran.get();
        let late = timeout(TTL / 2, call).await;
        assert!(
            begun == 1 || late.map_or(true, |late| late.is_err_and(|refusal| refusal.is_lost())),
            "{polls}"
        );
        assert_eq!(ran.get(), begun, "{polls}");
        next.lease().check().unwrap();
    }
    assert!(outlived >= 1, "none was granted what it did not fetch");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_fetched_late_is_renewed_from_then_on() {
    let setup = Paused::start();
    let (manager, key) = (setup.manager(), key("orders:7"));
    let mut acquire = pin!(manager.acquire(&key, &RENEWED));
    assert!(!ends_within(1, acquire.as_mut()).await);
    // Less than what counts as an outage, and more than an attempt may take.
    sleep(TTL * 2 / 3).await;
    let guard = acquire.await.unwrap();
    sleep(20 * TTL).await;
    guard.lease().check().unwrap();
}
