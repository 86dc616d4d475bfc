//! Connections in the runtimes of callers: when there are some, and what becomes of them and of locks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use lockrt::{LockManager, LockPolicy, Redis, Released};
use lockrt_tests::{Fault, Proxy, RedisServer, key, until};
use tokio::runtime::{Builder, Runtime};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(3));

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// So many locks, taken and given back.
async fn locks(manager: &LockManager, number: usize) {
    for number in 0..number {
        let guard = manager.acquire(&key(&format!("orders:{number}")), &POLICY).await.unwrap();
        assert_eq!(guard.release().await, Released::Freed);
    }
}

/// How many connections the server has beside the one that asks.
async fn connections(server: &RedisServer) -> u64 {
    let info: redis::InfoDict =
        redis::cmd("INFO").arg("clients").query_async(&mut server.raw().await).await.unwrap();
    info.get::<u64>("connected_clients").unwrap() - 1
}

#[tokio::test]
async fn a_runtime_of_many_locks_has_its_own_connection_until_it_or_the_manager_ends() {
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    locks(&manager, 10).await;
    assert_eq!(connections(&server).await, 1, "a few locks are not worth one");
    for _ in 0..3 {
        let manager = manager.clone();
        let ended = std::thread::spawn(move || {
            let runtime = runtime();
            runtime.block_on(locks(&manager, 40));
        });
        ended.join().unwrap();
        until("its connection has ended", async || connections(&server).await == 1).await;
    }
    locks(&manager, 40).await;
    until("this runtime has its own", async || {
        locks(&manager, 1).await;
        connections(&server).await == 2
    })
    .await;
    drop(manager);
    until("all have ended", async || connections(&server).await == 0).await;
}

#[tokio::test]
async fn runtimes_get_no_connection_where_that_is_not_wanted() {
    let server = RedisServer::start();
    let backend = Redis::from_url(&server.url()).unwrap().connect_callers(false);
    let manager = LockManager::builder().build(backend).unwrap();
    locks(&manager, 100).await;
    assert_eq!(connections(&server).await, 1);
}

#[tokio::test]
async fn a_lock_that_outlives_its_runtime_is_given_back() {
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    let guard = std::thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(locks(&manager, 40));
        runtime.block_on(manager.acquire(&key("kept"), &POLICY)).unwrap()
    });
    let guard = guard.join().unwrap();
    assert!(server.has("lock:kept").await && guard.lease().check().is_ok());
    drop(guard);
    until("the lock is freed", async || !server.has("lock:kept").await).await;
}

#[tokio::test]
async fn an_attempt_whose_runtime_ends_before_its_answer_leaves_no_lock() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let manager = LockManager::from_url(&proxy.url()).await.unwrap();
    let warm = manager.clone();
    let runtime = tokio::task::spawn_blocking(move || {
        let runtime = runtime();
        runtime.block_on(locks(&warm, 60));
        runtime
    });
    let runtime = runtime.await.unwrap();
    assert_eq!(proxy.accepted(), 2);
    proxy.set(Fault::DropReplies);
    let (taking, asked) = (manager.clone(), server.url());
    let ended = tokio::task::spawn_blocking(move || {
        let client = redis::Client::open(asked).unwrap();
        let taking = async move { manager_takes(&taking).await };
        runtime.spawn(taking);
        runtime.block_on(async {
            let mut raw = client.get_multiplexed_async_connection().await.unwrap();
            until("the lock is taken", async || {
                redis::cmd("EXISTS").arg("lock:late").query_async(&mut raw).await.unwrap()
            })
            .await;
        });
        drop(runtime);
    });
    ended.await.unwrap();
    proxy.clear();
    until("the lock is freed", async || !server.has("lock:late").await).await;
    drop(manager);
}

async fn manager_takes(manager: &LockManager) {
    let long = LockPolicy::new(Duration::from_secs(60));
    let guard = manager.acquire(&key("late"), &long).await;
    assert!(guard.is_err(), "nobody has answered");
}

#[tokio::test]
async fn a_runtime_without_a_network_uses_the_keepers_connection() {
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    let locking = manager.clone();
    let ended = tokio::task::spawn_blocking(move || {
        Builder::new_current_thread().build().unwrap().block_on(async {
            for _ in 0..80 {
                let guard = locking.acquire(&key("orders"), &POLICY).await.unwrap();
                // Whoever finds out that there is no network tells it on this thread, which may take a while.
                guard.release().await;
            }
        });
    });
    ended.await.unwrap();
    assert_eq!(connections(&server).await, 1);
    until("the lock is freed", async || !server.has("lock:orders").await).await;
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` on this thread, by no runtime.
fn run<T>(future: impl Future<Output = T>) -> T {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(std::thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test]
async fn a_runtime_that_stands_still_delays_a_lock_by_one_attempt() {
    let server = RedisServer::start();
    let manager = LockManager::from_url(&server.url()).await.unwrap();
    let took = tokio::task::spawn_blocking(move || {
        let runtime = runtime();
        runtime.block_on(locks(&manager, 60));
        // Entered, so that it counts as the caller's, but driven by nobody.
        let _inside = runtime.enter();
        let started = Instant::now();
        let guard = run(manager.acquire(&key("orders"), &POLICY)).unwrap();
        let took = started.elapsed();
        assert_eq!(run(guard.release()), Released::Freed);
        run(locks(&manager, 20));
        (took, started.elapsed())
    });
    let (first, all) = took.await.unwrap();
    assert!(first < Duration::from_secs(2) && all < Duration::from_secs(4), "{first:?} and {all:?}");
}
