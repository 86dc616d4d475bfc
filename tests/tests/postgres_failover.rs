//! A standby that takes over without the last commits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Attempt, Backend, Outcome, Postgres, Released, Renewed};
use lockrt_tests::{PostgresServer, Proxy, granted, key, refused, until, url_at};

const TTL: Duration = Duration::from_secs(60);

/// Two have the lock until the older one renews; the fencing tokens tell them apart.
#[tokio::test]
async fn a_failover_that_lost_a_lock_gives_it_twice_until_its_holder_renews_and_the_fence_tells_them_apart() {
    let primary = PostgresServer::start().await;
    let standby = primary.standby().await;
    let proxy = Proxy::start(primary.port(), 1).await;
    let (one, two) = (at(proxy.port()), at(proxy.port()));
    let (kept, lost) = (claim(&key("kept"), TTL), claim(&key("lost"), TTL));
    granted(&one, &kept).await;
    until("the grant is at the standby", async || standby.locks().await == 1).await;

    standby.stop_following().await;
    let first = granted(&one, &lost).await;
    proxy.lead_to(standby.port());
    proxy.cut();
    // A standby answers nobody as long as it is one.
    until("the clients reach the standby", async || {
        let error = refused(&two, &claim(&key("other"), TTL)).await;
        error.outcome() == Outcome::NotApplied && error.to_string().contains("cannot reach PostgreSQL")
    })
    .await;
    standby.promote().await;

    until("it is found", async || two.release(&claim(&key("other"), TTL)).await.is_ok()).await;
    assert!(matches!(two.try_acquire(&claim(kept.key(), TTL)).await, Ok(Attempt::Held { .. })));
    let second = granted(&two, &claim(lost.key(), TTL)).await;
    assert!(second > first, "{second} after {first}");
    until("its first holder is told", async || match &one.renew(&[&kept, &lost]).await[..] {
        [Renewed::Extended, Renewed::Gone] => true,
        [Renewed::Unknown(_), Renewed::Unknown(_)] => false,
        answers => panic!("{answers:?}"),
    })
    .await;
    assert_eq!(one.release(&lost).await.unwrap(), Released::NotHeld);
}

fn at(port: u16) -> Postgres {
    Postgres::from_url(&url_at(port)).unwrap()
}
