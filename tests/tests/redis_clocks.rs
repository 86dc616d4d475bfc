//! Clocks that are stepped: Redis's own, and that of its clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::conformance::{Fault, Power as _, STEP, Service as _, cases_under};
use lockrt::testing::claim;
use lockrt::{Attempt, Backend, Redis, Released, Renewed};
use lockrt_tests::{RedisPower, SteppedClock, granted, key, wall_seconds};
use redis::AsyncCommands as _;

const TTL: Duration = Duration::from_secs(60);

/// How far the server's wall clock is ahead of the machine's, in seconds.
async fn ahead(service: &RedisPower) -> i64 {
    let mut raw = service.server().await.raw().await;
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query_async(&mut raw).await.unwrap();
    seconds - i64::try_from(wall_seconds()).unwrap()
}

#[tokio::test]
async fn the_servers_clock_can_be_stepped_and_put_back() {
    let service = RedisPower::start().await;
    assert!(ahead(&service).await.abs() <= 1);
    service.inflict(Fault::ClockAhead).await;
    assert!((ahead(&service).await - 3_600).abs() <= 1);
    service.heal().await;
    assert!(ahead(&service).await.abs() <= 1);
}

/// Redis keeps the end of a lease as a time of day.
#[tokio::test]
async fn a_step_forward_ends_leases_and_their_holders_learn_it_by_a_renewal() {
    let service = RedisPower::start().await;
    let (one, two) = (service.client().await, service.client().await);
    let (holder, other) = (claim(&key("orders"), TTL), claim(&key("orders"), TTL));
    let first = granted(&one, &holder).await;
    service.inflict(Fault::ClockAhead).await;
    let second = granted(&two, &other).await;
    assert!(second > first + 3_000_000_000, "{second} after {first}");
    assert!(matches!(one.renew(&[&holder]).await[..], [Renewed::Gone]));
    assert!(matches!(two.renew(&[&other]).await[..], [Renewed::Extended]));
}

#[tokio::test]
async fn a_step_back_keeps_the_key_for_an_hour_more_until_its_holder_renews_or_releases() {
    let service = RedisPower::start().await;
    let (one, two) = (service.client().await, service.client().await);
    let (holder, other) = (claim(&key("orders"), TTL), claim(&key("orders"), TTL));
    service.inflict(Fault::ClockAhead).await;
    let first = granted(&one, &holder).await;
    service.heal().await;
    let left = free_in(&two).await;
    assert!(left > STEP && left <= STEP + TTL, "{left:?}");
    assert!(matches!(one.renew(&[&holder]).await[..], [Renewed::Extended]));
    let left = free_in(&two).await;
    assert!(left <= TTL, "{left:?}");
    assert_eq!(one.release(&holder).await.unwrap(), Released::Freed);
    // The clock is an hour behind the last token, so it can only be counted up.
    assert_eq!(granted(&two, &other).await, first + 1);
    let mut raw = service.server().await.raw().await;
    let left: u64 = raw.pttl("orders").await.unwrap();
    assert!(left <= 60_000, "{left}");
}

async fn free_in(client: &Redis) -> Duration {
    match client.try_acquire(&claim(&key("orders"), TTL)).await.unwrap() {
        Attempt::Held { free_in: Some(left) } => left,
        other => panic!("{other:?}"),
    }
}

/// The suite's cases, each in a process of its own on a stepped clock.
#[tokio::test]
async fn a_step_of_the_clients_clock_changes_nothing() {
    if SteppedClock::of_this_process().is_none() {
        return SteppedClock::new().run_again("a_step_of_the_clients_clock_changes_nothing");
    }
    let (service, before) = (RedisPower::start().await, wall_seconds());
    service.inflict(Fault::ClientAhead).await;
    assert!(wall_seconds() >= before + 3_600, "this process's clock is not stepped");
    assert!((ahead(&service).await + 3_600).abs() <= 1, "the server's clock is stepped, too");
    service.heal().await;
    let cases = cases_under(Fault::ClientAhead);
    assert!(!cases.is_empty());
    for case in cases {
        case.run(&RedisPower::start().await).await;
    }
}
