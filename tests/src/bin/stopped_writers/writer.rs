//! One process of a pair: `stopped_writers writer <way> <lock> <data> <counter>`.
//!
//! For each line `go` it raises the counter, and prints `wrote` or `refused` and why; for `stop` the same, but it
//! stops itself in between. `value` prints the counter.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockrt::{LockGuard, LockKey, LockManager, LockPolicy};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::objects::Object;
use crate::redis_key::RedisKey;
use crate::rows::Row;
use crate::way::{Place, Way};

pub(crate) const TTL: Duration = Duration::from_millis(300);
const POLICY: LockPolicy = LockPolicy::new(TTL).wait(Duration::from_secs(20));

/// What a refusal says.
pub(crate) type Refused = Box<dyn Display>;

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
            Err(why) => println!("refused {}", why.to_string().replace('\n', " ")),
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
    async fn raise(&mut self, lease: &lockrt::Lease) -> Result<(), Refused> {
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

pub(crate) fn refused(why: impl Display + 'static) -> Refused {
    Box::new(why)
}
