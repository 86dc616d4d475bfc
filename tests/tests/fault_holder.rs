//! A holder whose process is stopped past its lease, killed, or cut off from the lock service alone.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use lockrt::{LockGuard, LockKey, LockManager, LockPolicy};
use lockrt_tests::{Fault, Program, Proxy, RedisServer, Setup, Store, soon, until};

const TTL: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(1);
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60)).wait_forever();

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

fn ttl_ms() -> String {
    TTL.as_millis().to_string()
}

/// Holds without renewal and says when it is polled.
fn holder(server: &RedisServer) -> Program {
    let arguments = [&server.url(), KEY.as_str(), &ttl_ms()];
    let mut holder = Program::start(env!("CARGO_BIN_EXE_holder"), &arguments);
    assert_eq!(holder.says(), "held");
    assert!(holder.says().starts_with("poll "), "its body is polled");
    holder
}

/// Holds with renewal and writes to the store when told.
async fn writer(locks: &str, store: &RedisServer) -> Program {
    let (path, locks, store) = (env!("CARGO_BIN_EXE_writer"), locks.to_owned(), store.url());
    // Its connection may lead through a proxy that runs on this thread.
    let started = tokio::task::spawn_blocking(move || {
        let mut writer = Program::start(path, &[&locks, KEY.as_str(), &ttl_ms(), &store]);
        assert_eq!(writer.says(), "checked");
        writer.tell("write");
        assert_eq!(writer.says(), "taken");
        assert_eq!(writer.says(), "checked");
        writer
    });
    soon("the holder", started).await.unwrap()
}

/// The next owner, with what it wrote.
async fn takes_over(manager: &LockManager, store: &mut Store) -> LockGuard {
    let next = soon("the lock", manager.acquire(&KEY, &LONG)).await.unwrap();
    assert!(store.write(next.lease().fencing().unwrap().get(), "new"));
    next
}

/// Lets a holder write that does not know yet that its lease is over.
fn writes_too_late(writer: &mut Program, store: &mut Store) {
    assert_eq!((store.plain(), store.fenced()), ("new".into(), "new".into()));
    writer.tell("write");
    assert_eq!(writer.says(), "refused");
    assert_eq!(store.plain(), "old", "without a fence the stale write lands");
    assert_eq!(store.fenced(), "new");
    assert_eq!(writer.says(), "ended lost", "at the body's next await");
}

#[tokio::test]
async fn a_body_that_is_resumed_past_its_deadline_is_not_polled_again() {
    let server = RedisServer::start();
    let mut holder = holder(&server);
    holder.stop();
    until("its lease has expired", async || server.held().await == 0).await;
    let resumed = UNIX_EPOCH.elapsed().unwrap().as_millis();
    holder.resume();
    loop {
        let line = holder.says();
        if let Some(polled) = line.strip_prefix("poll ") {
            let polled: u128 = polled.parse().unwrap();
            assert!(polled < resumed, "polled {} ms after it was resumed", polled - resumed);
        } else {
            assert_eq!(line, "ended lost");
            return;
        }
    }
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl_and_its_token_is_smaller() {
    let server = RedisServer::start();
    let manager = server.manager();
    let before = manager.acquire(&KEY, &LONG).await.unwrap();
    let first = before.lease().fencing().unwrap();
    before.release().await;
    let mut holder = holder(&server);
    holder.kill();
    assert!(manager.try_acquire(&KEY, &LONG).await.unwrap_err().is_contended());
    let next = soon("the lock", manager.acquire(&KEY, &LONG)).await.unwrap();
    // The killed process had a token in between.
    assert!(next.lease().fencing().unwrap().get() > first.get() + 1);
}

#[tokio::test]
async fn a_holder_stopped_for_5_s_in_mid_write_spoils_a_plain_store_and_is_refused_by_a_fenced_one() {
    let (server, stored) = (RedisServer::start(), RedisServer::start());
    let (manager, mut store) = (server.manager(), Store::at(&stored.url()));
    let mut writer = writer(&server.url(), &stored).await;
    writer.stop();
    let stopped = Instant::now();
    let _next = takes_over(&manager, &mut store).await;
    assert!(stopped.elapsed() <= TTL + SLACK, "{:?}", stopped.elapsed());
    tokio::time::sleep_until((stopped + Duration::from_secs(5)).into()).await;
    writer.resume();
    writes_too_late(&mut writer, &mut store);
}

#[tokio::test]
async fn a_holder_cut_off_in_mid_write_spoils_a_plain_store_and_is_refused_by_a_fenced_one() {
    let (server, stored) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::start(server.port(), 1).await;
    let (manager, mut store) = (server.manager(), Store::at(&stored.url()));
    let mut writer = writer(&proxy.url(), &stored).await;
    proxy.set(Fault::Silence);
    let _next = takes_over(&manager, &mut store).await;
    writes_too_late(&mut writer, &mut store);
}

#[tokio::test]
async fn a_holder_cut_off_writes_on_until_its_deadline_and_then_stops() {
    let (server, stored) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::start(server.port(), 1).await;
    let (manager, mut store) = (server.manager(), Store::at(&stored.url()));
    let mut writer = writer(&proxy.url(), &stored).await;
    proxy.set(Fault::Silence);
    let cut = Instant::now();
    let writing = tokio::task::spawn_blocking(move || {
        let mut landed = 0;
        loop {
            writer.tell("write");
            // The last one may be late: a check is no fence.
            landed += u32::from(writer.says() == "taken");
            std::thread::sleep(Duration::from_millis(5));
            match writer.says() {
                line if line == "checked" => {}
                end => return (landed, end),
            }
        }
    });
    let next = takes_over(&manager, &mut store).await;
    let (landed, end) = soon("the end of the holder", writing).await.unwrap();
    assert!(cut.elapsed() <= TTL + SLACK * 2, "{:?}", cut.elapsed());
    assert!(landed > 5, "the store was reachable all the time: {landed} writes");
    assert_eq!(end, "ended lost");
    assert_eq!(store.fenced(), "new");
    next.lease().check().unwrap();
}
