//! One process of a pair: `stopped_writers writer <way> <lock> <data> <counter>`.
//!
//! For each line `go` it raises the counter, and prints `wrote`, or `refused`, `open` or `failed`, and why; for `stop`
//! the same, but it stops itself in between. `value` prints the counter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockrt::fence::FenceError;
use lockrt::{LockError, LockGuard, LockKey, LockManager, LockPolicy, Outcome};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::objects::Object;
use crate::redis_key::RedisKey;
use crate::rows::Row;
use crate::way::{Place, Way};

pub(crate) const TTL: Duration = Duration::from_millis(300);
const POLICY: LockPolicy = LockPolicy::new(TTL).wait(Duration::from_secs(20));

/// Why the counter was not raised.
pub(crate) enum NotRaised {
    /// It came too late, which is what a fence is for, and a session that the server ends.
    Refused(String),
    /// The store has refused the put, and does not know whether it had been put before.
    Open(String),
    /// Anything else is a fault of the run.
    Failed(String),
}

enum Counter {
    Row(Row),
    Redis(RedisKey),
    Object(Object),
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn write(arguments: &[String]) {
    let [way, lock, data, id] = arguments else { panic!("writer <way> <lock> <data> <counter>") };
    let way: Way = way.parse().unwrap();
    let manager = LockManager::from_url(lock).await.unwrap();
    let key = LockKey::of("counter:").part(id).build().unwrap();
    let mut counter = match way.place() {
        Place::Row => Counter::Row(Row::open(way, data, id).await),
        Place::Redis => Counter::Redis(RedisKey::open(way, data, id).await),
        Place::Object => Counter::Object(Object::open(way, data, id)),
    };
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        if line == "value" {
            println!("{}", counter.value().await);
            continue;
        }
        STOP.store(line == "stop", Ordering::Relaxed);
        let raised = match &mut counter {
            Counter::Row(row) if way == Way::LockIn => row.raise_in_transaction(&key, &POLICY).await,
            counter => {
                let guard = acquired(&manager, &key).await;
                let raised = counter.raise(guard.lease()).await;
                guard.release().await;
                raised
            }
        };
        assert!(!STOP.load(Ordering::Relaxed), "it has not come to the point where it stops");
        match raised {
            Ok(()) => println!("wrote"),
            Err(NotRaised::Refused(why)) => println!("refused {}", why.replace('\n', " ")),
            Err(NotRaised::Open(why)) => println!("open {}", why.replace('\n', " ")),
            Err(NotRaised::Failed(why)) => println!("failed {}", why.replace('\n', " ")),
        }
    }
}

/// What comes in, line by line. On a thread of its own: connections have to be served meanwhile.
fn lines() -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            sender.send(line.unwrap()).unwrap();
        }
    });
    receiver
}

/// The lock, by hand: it does not stop a holder who is late, so the store has to.
async fn acquired(manager: &LockManager, key: &LockKey) -> LockGuard {
    let began = Instant::now();
    loop {
        match manager.acquire(key, &POLICY.require_fencing()).await {
            Ok(guard) => return guard,
            // A machine under load may not answer within a third of so short a ttl.
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error}"),
        }
    }
}

impl Counter {
    async fn raise(&mut self, lease: &lockrt::Lease) -> Result<(), NotRaised> {
        match self {
            Self::Row(row) => row.raise(lease).await,
            Self::Redis(key) => key.raise(lease).await,
            Self::Object(object) => object.raise(lease).await,
        }
    }

    async fn value(&mut self) -> u64 {
        match self {
            Self::Row(row) => row.read().await,
            Self::Redis(key) => key.read().await,
            Self::Object(object) => object.read().await,
        }
    }
}

/// Whether this round has to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// The point between read and write: stands still if this round has to, until somebody lets it go on.
pub(crate) fn stand_still() {
    if STOP.swap(false, Ordering::Relaxed) {
        // The signal is delivered before the call returns, since this is the process's first thread.
        kill_process(getpid(), Signal::STOP).unwrap();
    }
}

impl From<FenceError> for NotRaised {
    fn from(error: FenceError) -> Self {
        match error {
            FenceError::Stale { .. } | FenceError::Repeated { .. } => Self::Refused(error.to_string()),
            error if error.outcome() == Outcome::Unknown => Self::Open(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<LockError> for NotRaised {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Lost { .. } => Self::Refused(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}
