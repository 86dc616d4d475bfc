//! A body that is dropped while its lease is renewed: the lock is given back, and not renewed again.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::LockPolicy;
use lockrt_tests::{Call, Fate, Faulty, Paused, Setup as _, dropped_at_every_poll, key, polled, until};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(3);
/// Renewed each second.
const RENEWED: LockPolicy = LockPolicy::new(TTL).renew(Duration::from_secs(600));
/// How often the body is polled: some polls come while a renewal is on its way.
const STRIDE: Duration = Duration::from_millis(90);
const STRIDES: usize = 40;

async fn strides() {
    for _ in 0..STRIDES {
        sleep(STRIDE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_body_that_is_dropped_at_any_poll_leaves_nothing() {
    let setup = Paused::start();
    let polls = dropped_at_every_poll(&setup, async |manager| {
        manager.run(&key("orders:7"), &RENEWED, async |_| strides().await).await.unwrap();
    });
    assert!(polls.await >= STRIDES);
}

/// Drops the body at every poll while renewals meet this fate.
async fn dropped_while_renewals(fate: Fate) {
    for polls in 2..STRIDES {
        let service = Faulty::start(move |call, _| if call == Call::Renew { fate } else { Fate::Answered });
        let manager = service.manager();
        let key = key("orders:7");
        let body = manager.run(&key, &RENEWED, async |_| strides().await);
        let case = format!("{fate:?}, dropped after {polls} polls");
        if polled(polls, body, async {}).await.is_some() {
            // Its renewals fail, so it has lost its lease.
            assert!(polls > 25, "{case}");
        }
        let (dropped, renewals) = (Instant::now(), service.calls(Call::Renew));
        until("the lock is free", async || service.held().await == 0).await;
        assert!(dropped.elapsed() <= Duration::from_millis(50), "{case}: {:?}", dropped.elapsed());
        sleep(4 * TTL).await;
        assert_eq!(service.calls(Call::Renew), renewals, "{case}");
        assert_eq!(service.held().await, 0, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_while_its_renewal_is_on_its_way_is_not_renewed_again() {
    dropped_while_renewals(Fate::AnsweredAfter(Duration::from_millis(250))).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_while_its_renewals_fail_is_not_renewed_again() {
    for fate in [Fate::Silent, Fate::Applied, Fate::AppliedInSilence, Fate::Unknown, Fate::NotApplied] {
        dropped_while_renewals(fate).await;
    }
}
