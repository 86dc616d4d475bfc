//! How often the lock service is asked, to the call: on paused time, where nothing else is late.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{Call, Fate, Faulty, Setup};
use tokio::time::{sleep, timeout};

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

#[tokio::test(start_paused = true)]
async fn renewals_are_sent_every_third_of_the_ttl() {
    let ttl = Duration::from_millis(400);
    let policy = LockPolicy::new(ttl).renew(Duration::from_secs(60));
    let service = Faulty::start(|_, _| Fate::Answered);
    service.manager().run(&KEY, &policy, async |_| sleep(ttl * 10).await).await.unwrap();
    let renewals = service.calls(Call::Renew);
    assert!((28..=30).contains(&renewals), "{renewals}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_asks_a_slow_service_as_patiently_after_a_long_pause() {
    let service = Faulty::start(|_, _| Fate::AnsweredAfter(Duration::from_millis(5)));
    let long = LockPolicy::new(Duration::from_secs(60));
    let holder = service.manager().acquire(&KEY, &long).await.unwrap();
    let manager = service.manager();
    let policy = LockPolicy::new(Duration::from_secs(10)).wait_forever();
    let refusal = timeout(Duration::from_secs(40), manager.acquire(&KEY, &policy)).await;
    assert!(refusal.is_err(), "it waits for as long as there is a holder: {refusal:?}");
    drop(holder);
}
