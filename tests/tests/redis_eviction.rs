//! A server that may evict locks is warned about, and what becomes of a lock that it evicts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Backend, LockError, LockManager, LockPolicy, LossReason, Redis};
use lockrt_tests::{RedisServer, Setup, granted, key, soon, until};
use tracing::field::Field;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

const TTL: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_evicting_server_is_warned_about_once_per_connection() {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut server = RedisServer::start_with(&["--maxmemory", "50mb", "--maxmemory-policy", "volatile-ttl"]);
    let client = Redis::from_url(&server.url())
        .unwrap()
        .on_warning(|warning| WARNINGS.lock().unwrap().push(warning.to_owned()));
    assert!(WARNINGS.lock().unwrap().is_empty(), "the constructor connects to nothing");
    for number in 0..5 {
        granted(&client, &claim(&key(&format!("orders:{number}")), TTL)).await;
    }
    assert_eq!(WARNINGS.lock().unwrap().len(), 1);
    assert!(WARNINGS.lock().unwrap()[0].contains("volatile-ttl"));
    server.restart();
    until("the client is connected again", async || {
        client.try_acquire(&claim(&key("again"), TTL)).await.is_ok()
    })
    .await;
    assert_eq!(WARNINGS.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_server_that_never_evicts_is_not_warned_about() {
    for options in [
        &["--maxmemory", "50mb", "--maxmemory-policy", "noeviction"],
        &["--maxmemory", "0", "--maxmemory-policy", "allkeys-lru"],
    ] {
        let server = RedisServer::start_with(options);
        let client =
            Redis::from_url(&server.url()).unwrap().on_warning(|warning| panic!("warned: {warning}"));
        granted(&client, &claim(&key("orders"), TTL)).await;
    }
}

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the texts of warnings.
struct Listener;

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            event.record(&mut |_: &Field, value: &dyn Debug| {
                HEARD.lock().unwrap().push(format!("{value:?}"));
            });
        }
    }
}

#[tokio::test]
async fn a_manager_that_connects_to_an_evicting_server_says_so() {
    // For all threads, since the manager's own sends the event.
    tracing_subscriber::registry().with(Listener).init();
    let server = RedisServer::start_with(&["--maxmemory", "50mb", "--maxmemory-policy", "volatile-ttl"]);
    let _manager = LockManager::from_url(&server.url()).await.unwrap();
    until("the warning is heard", async || {
        HEARD.lock().unwrap().iter().any(|text| text.contains("volatile-ttl") && text.contains("noeviction"))
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_was_evicted_is_lost_at_its_next_renewal_and_its_token_is_smaller() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "volatile-ttl"]);
    let (manager, mut raw) = (server.manager(), server.raw().await);
    let policy = LockPolicy::new(Duration::from_secs(2)).renew(Duration::from_secs(60));
    let guard = manager.acquire(&key("orders"), &policy).await.unwrap();
    let begun = std::time::Instant::now();
    redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"]).exec_async(&mut raw).await.unwrap();
    let loss = guard.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Gone, .. }), "{loss}");
    assert!(begun.elapsed() <= policy.ttl() / 3 + Duration::from_secs(1), "{:?}", begun.elapsed());
    redis::cmd("CONFIG").arg(&["SET", "maxmemory", "0"]).exec_async(&mut raw).await.unwrap();
    let next = soon("the lock", manager.acquire(&key("orders"), &policy)).await.unwrap();
    assert!(next.lease().fencing() > guard.lease().fencing());
}
