//! HTTP clients that hang up: axum drops the handler's future, on a real socket.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{Router, post};
use lockrt::{LockError, LockManager, LockPolicy, distributed_lock};
use lockrt_tests::{RedisServer, Threaded, Traced, Watch, key, settled, soon};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// One instance of a service, whose handlers say when they work and when they are dropped.
struct Working {
    locks: LockManager,
    begun: Notify,
    dropped: Notify,
}

/// Says that a body was dropped.
struct Dropped<'a>(&'a Notify);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Working {
    /// Never ends by itself.
    async fn work(&self) {
        let _dropped = Dropped(&self.dropped);
        self.begun.notify_one();
        pending::<()>().await;
    }
}

type Service = State<Arc<Working>>;

#[distributed_lock(key = "export:{id}", ttl_ms = 15_000, manager = &service.locks)]
async fn export(State(service): Service, Path(id): Path<u64>) -> Result<(), LockError> {
    service.work().await;
    Ok(())
}

#[distributed_lock(key = "export:{id}", ttl_ms = 15_000, manager = &service.locks, on_contention = wait(forever))]
async fn queue(State(service): Service, Path(id): Path<u64>) -> Result<(), LockError> {
    service.work().await;
    Ok(())
}

#[distributed_lock(key = "export:{id}", ttl_ms = 15_000, manager = &service.locks, on_cancel = hold)]
async fn pay(State(service): Service, Path(id): Path<u64>) -> Result<(), LockError> {
    service.work().await;
    Ok(())
}

async fn by_hand(State(service): Service, Path(id): Path<u64>) -> Result<(), LockError> {
    let (key, policy) = (key(&format!("export:{id}")), LockPolicy::new(Duration::from_secs(15)));
    service.locks.run(&key, &policy, async |_| service.work().await).await
}

/// Serves the handlers until the task is aborted.
async fn serve(locks: LockManager) -> (SocketAddr, Arc<Working>, JoinHandle<()>) {
    let working = Arc::new(Working { locks, begun: Notify::new(), dropped: Notify::new() });
    let routes = Router::new()
        .route("/export/{id}", post(export))
        .route("/queue/{id}", post(queue))
        .route("/pay/{id}", post(pay))
        .route("/by-hand/{id}", post(by_hand))
        .with_state(Arc::clone(&working));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (address, working, served)
}

/// Sends a request and leaves the answer to whoever reads it.
async fn send(service: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service).await.unwrap();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Hangs up on a request whose handler is at work.
async fn hang_up(service: SocketAddr, working: &Working, path: &str) {
    let client = send(service, path).await;
    soon("the handler", working.begun.notified()).await;
    drop(client);
    soon("the end of the handler", working.dropped.notified()).await;
}

mod memory {
    use super::*;

    #[tokio::test]
    async fn a_client_that_hangs_up_gives_the_lock_back() {
        a_client_that_hangs_up_gives_it_back(&Threaded::start()).await;
    }

    #[tokio::test]
    async fn clients_that_hang_up_while_they_wait_leave_nothing() {
        clients_that_wait_leave_nothing(&Threaded::start()).await;
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_leaves_the_key_to_its_ttl_where_an_effect_may_be_in_flight() {
        a_client_that_hangs_up_leaves_it_to_its_ttl(&Threaded::start()).await;
    }
}

mod redis {
    use super::*;

    #[tokio::test]
    async fn a_client_that_hangs_up_gives_the_lock_back() {
        a_client_that_hangs_up_gives_it_back(&RedisServer::start()).await;
    }

    #[tokio::test]
    async fn clients_that_hang_up_while_they_wait_leave_nothing() {
        clients_that_wait_leave_nothing(&RedisServer::start()).await;
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_leaves_the_key_to_its_ttl_where_an_effect_may_be_in_flight() {
        a_client_that_hangs_up_leaves_it_to_its_ttl(&RedisServer::start()).await;
    }
}

async fn ends(watch: &mut Watch<'_, impl Traced>, working: Arc<Working>, served: JoinHandle<()>, case: &str) {
    served.abort();
    let _ = served.await;
    let locks = working.locks.clone();
    drop(working);
    settled(locks, case).await;
    watch.nothing_is_left(case).await;
}

async fn a_client_that_hangs_up_gives_it_back(setup: &impl Traced) {
    let mut watch = Watch::start(setup).await;
    let (service, working, served) = serve(setup.manager()).await;
    for path in ["/export/7", "/queue/7", "/by-hand/7", "/export/7"] {
        hang_up(service, &working, path).await;
        watch.nothing_is_stored(path).await;
    }
    ends(&mut watch, working, served, "after all").await;
}

async fn clients_that_wait_leave_nothing(setup: &impl Traced) {
    let mut watch = Watch::start(setup).await;
    let (service, working, served) = serve(setup.manager()).await;
    let holder = send(service, "/queue/7").await;
    soon("the handler", working.begun.notified()).await;
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(send(service, "/queue/7").await);
    }
    let lines = async |lines: &str| {
        let in_line = async || format!("{:?}", working.locks).contains(lines);
        lockrt_tests::until(lines, in_line).await;
    };
    lines("lines: 1").await;
    sleep(Duration::from_millis(50)).await;
    // Those in line first, then whoever works: nobody else begins.
    drop(waiting);
    sleep(Duration::from_millis(50)).await;
    drop(holder);
    soon("the end of the handler", working.dropped.notified()).await;
    watch.nothing_is_stored("all have hung up").await;
    lines("lines: 0").await;
    ends(&mut watch, working, served, "all have hung up").await;
}

async fn a_client_that_hangs_up_leaves_it_to_its_ttl(setup: &impl Traced) {
    let mut watch = Watch::start(setup).await;
    let (service, working, served) = serve(setup.manager()).await;
    hang_up(service, &working, "/pay/7").await;
    // A wait gives a release that should not be time to come.
    let others = setup.manager();
    let waiting = LockPolicy::new(Duration::from_secs(15)).wait(Duration::from_millis(500));
    let refused = others.acquire(&key("export:7"), &waiting).await;
    assert!(refused.is_err_and(|refusal| refusal.is_contended()));
    // The place of the wait is given up behind it; the key stays.
    lockrt_tests::until("the key is all there is", async || watch.count().await.stored == 1).await;
    served.abort();
    drop(working);
}
