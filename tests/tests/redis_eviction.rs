//! A server that may evict locks is warned about.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Mutex;
use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Backend, Redis};
use lockrt_tests::{RedisServer, granted, key, until};

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
