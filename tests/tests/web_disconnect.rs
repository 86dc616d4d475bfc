//! A client that hangs up while its handler works: axum drops the handler's future, and `on_cancel` says what
//! becomes of the lock.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::{Router, post};
use lockrt::{LockError, LockManager, LockPolicy, Memory, distributed_lock, testing};
use lockrt_tests::{key, soon, until};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How long a lock lasts that is kept.
const TTL: Duration = Duration::from_secs(1);
/// So long that a key which is free soon was released.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60));

/// What the handlers share: their locks, and what they say of their work.
struct Service {
    locks: LockManager,
    asked: Notify,
    begun: Notify,
    dropped: Notify,
}

type Shared = State<Arc<Service>>;

/// Says that a body was dropped.
struct Dropped<'a>(&'a Notify);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Works and never ends.
async fn work(service: &Service) {
    let _dropped = Dropped(&service.dropped);
    service.begun.notify_one();
    pending::<()>().await;
}

#[distributed_lock(key = "export:7", ttl_ms = 60_000, manager = &service.locks)]
async fn released(State(service): Shared) -> Result<(), LockError> {
    work(&service).await;
    Ok(())
}

#[distributed_lock(key = "export:7", ttl_ms = 1_000, on_cancel = hold, manager = &service.locks)]
async fn kept(State(service): Shared) -> Result<(), LockError> {
    work(&service).await;
    Ok(())
}

#[distributed_lock(key = "export:7", ttl_ms = 60_000, renew = auto(max_ms = 600_000), on_cancel = hold, manager = &service.locks)]
async fn kept_and_renewed(State(service): Shared) -> Result<(), LockError> {
    work(&service).await;
    Ok(())
}

async fn waiting(State(service): Shared) -> Result<(), LockError> {
    let _dropped = Dropped(&service.dropped);
    service.asked.notify_one();
    service.locks.run(&key("export:7"), &LONG.wait_forever(), async |_| service.begun.notify_one()).await
}

async fn by_hand(State(service): Shared) -> Result<(), LockError> {
    let _guard = service.locks.acquire(&key("export:7"), &LONG).await?;
    work(&service).await;
    Ok(())
}

/// Serves on loopback; the lock service and what the handlers share.
async fn serve() -> (SocketAddr, Memory, Arc<Service>) {
    let memory = Memory::new();
    let [asked, begun, dropped] = [const { Notify::const_new() }; 3];
    let service = Arc::new(Service { locks: testing::manager(memory.clone()), asked, begun, dropped });
    let routes = Router::new()
        .route("/released", post(released))
        .route("/kept", post(kept))
        .route("/kept-and-renewed", post(kept_and_renewed))
        .route("/waiting", post(waiting))
        .route("/by-hand", post(by_hand))
        .with_state(Arc::clone(&service));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, memory, service)
}

/// Sends a request; dropping what it gives hangs up.
async fn send(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Hangs up on a request whose handler is at work; gives the locks as they are then.
async fn hang_up(path: &str) -> Memory {
    let (address, memory, service) = serve().await;
    let client = send(address, path).await;
    soon("the handler", service.begun.notified()).await;
    assert_eq!(memory.held(), 1);
    drop(client);
    soon("the end of the handler", service.dropped.notified()).await;
    memory
}

#[tokio::test]
async fn the_lock_is_free() {
    for path in ["/released", "/by-hand"] {
        let memory = hang_up(path).await;
        until("the lock is free", async || memory.held() == 0).await;
    }
}

#[tokio::test]
async fn the_lock_is_left_to_its_ttl_where_an_effect_may_be_in_flight() {
    let asked = Instant::now();
    let memory = hang_up("/kept").await;
    let others = testing::manager(memory.clone());
    loop {
        let refused = others.try_acquire(&key("export:7"), &LONG).await;
        // Read after the answer: a machine may stall in between.
        if asked.elapsed() >= TTL * 9 / 10 {
            break;
        }
        assert!(refused.is_err_and(|refusal| refusal.is_contended()), "after {:?}", asked.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    until("the lock has expired", async || memory.held() == 0).await;
}

#[tokio::test]
async fn a_lock_that_was_renewed_is_kept_too() {
    let memory = hang_up("/kept-and-renewed").await;
    // A wait gives a release that should not be time to come.
    let waiting = LONG.wait(Duration::from_millis(300));
    let refused = testing::manager(memory.clone()).acquire(&key("export:7"), &waiting).await;
    assert!(refused.is_err_and(|refusal| refusal.is_contended()));
    assert_eq!(memory.held(), 1);
}

#[tokio::test]
async fn a_handler_that_waits_for_its_lock_never_gets_it_later() {
    let (address, memory, service) = serve().await;
    let holder = testing::manager(memory.clone()).acquire(&key("export:7"), &LONG).await.unwrap();
    let client = send(address, "/waiting").await;
    soon("the handler", service.asked.notified()).await;
    drop(client);
    soon("the end of the handler", service.dropped.notified()).await;
    holder.release().await;
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_millis(200) {
        assert_eq!(memory.held(), 0, "a handler that is gone has taken the lock");
        sleep(Duration::from_millis(2)).await;
    }
}
