//! Wakers, backends, subscribers and recorders that misbehave: none of them stops the locks of anybody else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, LockError, LockManager, LockPolicy, Memory, OnLost,
    Released, Renewed,
};
use lockrt_tests::{key, soon};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(30)).wait(Duration::from_secs(20));

fn manager() -> LockManager {
    LockManager::builder().build(Memory::new()).unwrap()
}

/// Polls an acquire once; the task that waits for it goes with the waker.
fn start(manager: &LockManager, name: &'static str, wake: impl FnOnce(Acquire) -> Waker) -> Started {
    let manager = manager.clone();
    let acquire: Acquire = Arc::new(Mutex::new(None));
    let waker = wake(Arc::clone(&acquire));
    let mut future: Future = Box::pin(async move {
        let _ = manager.acquire(&key(name), &POLICY).await;
    });
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    *acquire.lock().unwrap() = Some(future);
    Started { acquire }
}

type Future = Pin<Box<dyn std::future::Future<Output = ()> + Send>>;
type Acquire = Arc<Mutex<Option<Future>>>;

struct Started {
    acquire: Acquire,
}

impl Drop for Started {
    fn drop(&mut self) {
        let future = self.acquire.lock().unwrap().take();
        drop(future);
    }
}

/// Cancels its task when it is woken, as executors do that are shut down.
struct Cancels(Acquire);

impl Wake for Cancels {
    fn wake(self: Arc<Self>) {
        let future = self.0.lock().unwrap().take();
        drop(future);
    }
}

/// Fails when it is woken, as executors do whose queue is gone.
struct Fails;

impl Wake for Fails {
    fn wake(self: Arc<Self>) {
        panic!("the executor is gone");
    }
}

#[test]
fn a_waiter_that_is_cancelled_by_its_own_wake_up_lets_the_next_one_in() {
    let (done, finished) = mpsc::channel();
    // A thread of its own, since what is tested is that nothing waits for ever.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let locks = manager();
            let guard = locks.acquire(&key("k"), &POLICY).await.unwrap();
            let head = start(&locks, "k", |_| Waker::noop().clone());
            let next = start(&locks, "k", |acquire| Waker::from(Arc::new(Cancels(acquire))));
            drop(head);
            drop(guard);
            drop(next);
            assert!(locks.acquire(&key("k"), &POLICY).await.is_ok());
        });
        done.send(()).unwrap();
    });
    finished.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[tokio::test]
async fn a_waker_that_panics_does_not_end_the_keeper() {
    let locks = manager();
    let guard = locks.acquire(&key("k"), &POLICY).await.unwrap();
    let woken = start(&locks, "k", |_| Waker::from(Arc::new(Fails)));
    // The wake-up ends the pause of the one who fails, unless the answer to its attempt did before.
    assert_eq!(soon("the release", guard.release()).await, Released::Freed);
    drop(woken);
    assert!(soon("the next grant", locks.acquire(&key("k"), &POLICY)).await.is_ok());
}

#[tokio::test]
async fn a_waker_that_panics_spares_whoever_is_ahead_of_it_in_line() {
    let locks = manager();
    let guard = locks.acquire(&key("k"), &POLICY).await.unwrap();
    let (name, ahead) = (key("k"), locks.clone());
    let mut ahead = Box::pin(async move { ahead.acquire(&name, &POLICY).await });
    assert!(ahead.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let behind = start(&locks, "k", |_| Waker::from(Arc::new(Fails)));
    guard.release().await;
    // Its turn ends with its grant, and the one behind is woken.
    assert!(soon("the grant", ahead).await.is_ok());
    drop(behind);
    assert!(soon("the next grant", locks.acquire(&key("k"), &POLICY)).await.is_ok());
}

#[tokio::test]
async fn a_waker_that_panics_spares_whoever_sees_the_end_of_the_lease_first() {
    let locks = lockrt::testing::manager(Memory::new());
    let policy = LockPolicy::new(Duration::from_millis(50));
    let guard = locks.acquire(&key("k"), &policy).await.unwrap();
    let lease = guard.lease().clone();
    let mut lost = Box::pin(lease.lost());
    let waker = Waker::from(Arc::new(Fails));
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    // The keeper is a task of this thread, so the check is the first to see the deadline passed.
    thread::sleep(policy.ttl());
    assert!(guard.lease().check().is_err_and(|error| error.is_lost()));
}

/// Panics before it has made a future, or when that is dropped unanswered.
#[derive(Debug)]
struct Panics {
    capabilities: Capabilities,
    at: At,
}

#[derive(Debug, PartialEq, Eq)]
enum At {
    Acquire,
    Release,
    Drop,
}

/// Never ready, and panics when it is dropped.
struct Never;

impl Drop for Never {
    fn drop(&mut self) {
        assert!(thread::panicking(), "dropped unanswered");
    }
}

impl Backend for Panics {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn try_acquire(
        &self,
        _: &Claim,
    ) -> impl std::future::Future<Output = Result<Attempt, BackendError>> + Send {
        assert!(self.at != At::Acquire, "no attempt today");
        let never = (self.at == At::Drop).then(|| Never);
        async move {
            if let Some(_never) = never {
                std::future::pending::<()>().await;
            }
            Ok(Attempt::Granted { fencing: None })
        }
    }

    async fn renew(&self, _: &[&Claim]) -> Vec<Renewed> {
        Vec::new()
    }

    fn release(&self, _: &Claim) -> impl std::future::Future<Output = Result<Released, BackendError>> + Send {
        assert!(self.at != At::Release, "no release today");
        ready(Ok(Released::Freed))
    }
}

fn panics(at: At) -> LockManager {
    LockManager::builder().build(Panics { capabilities: Capabilities::new("panics"), at }).unwrap()
}

#[tokio::test]
async fn a_backend_that_panics_is_one_that_does_not_answer() {
    let policy = LockPolicy::new(Duration::from_millis(300));
    for at in [At::Acquire, At::Drop] {
        let refused = soon("the refusal", panics(at).acquire(&key("k"), &policy)).await;
        assert!(refused.as_ref().is_err_and(LockError::is_unavailable), "{refused:?}");
    }
    let locks = panics(At::Release);
    let guard = locks.acquire(&key("k"), &policy).await.unwrap();
    assert_eq!(soon("the keeper takes over", guard.release()).await, Released::Deferred);
    // By then the lease has ended by itself.
    tokio::time::sleep(policy.ttl() * 2).await;
    assert!(soon("the shutdown", locks.shutdown(Duration::from_millis(1))).await.is_clean());
}

/// Takes a lock of its own for every event it is told.
struct Locks {
    manager: LockManager,
    ended: Arc<AtomicUsize>,
}

impl tracing::Subscriber for Locks {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        let name = key("events");
        let mut run = Box::pin(self.manager.run(&name, &POLICY, async |_| ()));
        while run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            thread::yield_now();
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_subscriber_may_take_a_lock_while_the_loss_of_another_is_told() {
    let (ended, events) = (Arc::<AtomicUsize>::default(), manager());
    let _told = tracing::subscriber::set_default(Locks { manager: events, ended: Arc::clone(&ended) });
    // Its keeper is a task of this thread, so the body sees the end of its lease before it does.
    let locks = lockrt::testing::manager(Memory::new());
    let policy = LockPolicy::new(Duration::from_millis(50)).on_lost(OnLost::Report);
    let name = key("k");
    let again = locks.run(&name, &policy, async |_| {
        thread::sleep(policy.ttl());
        locks.try_acquire(&name, &policy).await.is_ok()
    });
    assert!(soon("the body", again).await.unwrap(), "the lease has ended, so this is another one");
    // The loss, the end of the body after it, and the release that found nothing.
    assert_eq!(ended.load(Ordering::Relaxed), 3);
}

/// A recorder whose store of numbers is broken.
struct Broken;

/// A panic of which nobody writes down where it came from: that takes longer than a lease lasts here.
fn fails(why: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(why))
}

impl metrics::Recorder for Broken {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}
    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        fails("no counters today")
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        fails("no gauges today")
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        fails("no histograms today")
    }
}

#[tokio::test]
async fn a_recorder_that_panics_changes_no_outcome() {
    // The others of this process must bear it, too.
    metrics::set_global_recorder(Broken).unwrap();
    let locks = manager();
    let policy = LockPolicy::new(Duration::from_millis(300)).renew(Duration::from_secs(30));
    let guard = locks.acquire(&key("k"), &policy).await.unwrap();
    assert!(locks.try_acquire(&key("k"), &policy).await.is_err_and(|refused| refused.is_contended()));
    // Two ttls, so that renewals have been counted.
    tokio::time::sleep(policy.ttl() * 2).await;
    assert!(guard.lease().check().is_ok());
    assert_eq!(soon("the release", guard.release()).await, Released::Freed);
    let lost = policy.on_lost(OnLost::Report).wait(Duration::from_secs(1));
    let guard = locks.acquire(&key("k"), &lost).await.unwrap();
    drop(guard);
    assert!(soon("the next grant", locks.acquire(&key("k"), &POLICY)).await.is_ok());
}
