//! What a case may leave behind, and must not.

use std::future::Future;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::{Paused, RedisServer, Setup, Threaded};

/// How long it may take until the last trace is gone; generous, since machines stall.
const SOON: Duration = Duration::from_secs(10);

/// All that locks may leave behind, as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// What the lock service has stored, fences aside.
    pub stored: usize,
    /// Who waits for a release at the lock service.
    pub listeners: usize,
    /// Connections of the lock service.
    pub connections: usize,
    /// Threads of keepers, in this process.
    pub keepers: usize,
    /// Tasks of the current runtime.
    pub tasks: usize,
}

/// A service whose traces can be counted.
pub trait Traced: Setup {
    /// What looks at it, the same all the time, since it may be a trace itself.
    type Eye;

    /// Opens the eye.
    fn eye(&self) -> impl Future<Output = Self::Eye>;

    /// Counts.
    fn traces(&self, eye: &mut Self::Eye) -> impl Future<Output = Traces>;
}

/// Compares the traces at the end of a case with those at its begin.
pub struct Watch<'s, S: Traced> {
    setup: &'s S,
    eye: S::Eye,
    before: Traces,
    // Another case of this process has keepers, too.
    _alone: MutexGuard<'static, ()>,
}

impl<'s, S: Traced> Watch<'s, S> {
    /// Counts what is there before the case. Only one case of a process is watched at a time.
    pub async fn start(setup: &'s S) -> Self {
        static ALONE: Mutex<()> = Mutex::const_new(());
        let alone = ALONE.lock().await;
        let mut eye = setup.eye().await;
        let before = setup.traces(&mut eye).await;
        Self { setup, eye, before, _alone: alone }
    }

    /// Counts what there is beyond what was there before.
    pub async fn count(&mut self) -> Traces {
        let now = self.setup.traces(&mut self.eye).await;
        let Traces { stored, listeners, connections, keepers, tasks } = self.before;
        Traces {
            stored: now.stored.saturating_sub(stored),
            listeners: now.listeners.saturating_sub(listeners),
            connections: now.connections.saturating_sub(connections),
            keepers: now.keepers.saturating_sub(keepers),
            tasks: now.tasks.saturating_sub(tasks),
        }
    }

    /// Waits until nothing is there that was not there before.
    ///
    /// # Panics
    ///
    /// If that does not come to pass; the message says after what, and what is left.
    pub async fn nothing_is_left(&mut self, case: &str) {
        self.until(case, |left| left == Traces::default()).await;
    }

    /// Waits until nothing is stored that was not stored before. Its manager may still be there.
    ///
    /// # Panics
    ///
    /// As [`nothing_is_left`](Self::nothing_is_left).
    pub async fn nothing_is_stored(&mut self, case: &str) {
        self.until(case, |left| left.stored == 0).await;
    }

    async fn until(&mut self, case: &str, gone: impl Fn(Traces) -> bool) {
        let deadline = Instant::now() + SOON;
        loop {
            let left = self.count().await;
            if gone(left) {
                return;
            }
            assert!(Instant::now() < deadline, "{case}: {left:?} are left");
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Traced for Paused {
    type Eye = ();

    async fn eye(&self) {}

    async fn traces(&self, (): &mut ()) -> Traces {
        in_memory(&self.0)
    }
}

impl Traced for Threaded {
    type Eye = ();

    async fn eye(&self) {}

    async fn traces(&self, (): &mut ()) -> Traces {
        in_memory(&self.0)
    }
}

fn in_memory(memory: &lockrt::Memory) -> Traces {
    // Nothing else shows them.
    let listeners = usize::from(!format!("{memory:?}").contains("listeners: {}"));
    Traces { stored: memory.held(), listeners, ..of_process() }
}

impl Traced for RedisServer {
    type Eye = MultiplexedConnection;

    async fn eye(&self) -> MultiplexedConnection {
        self.raw().await
    }

    async fn traces(&self, eye: &mut MultiplexedConnection) -> Traces {
        let channels: Vec<String> =
            redis::cmd("PUBSUB").arg("CHANNELS").query_async(eye).await.expect("PUBSUB answers");
        let clients: String =
            redis::cmd("CLIENT").arg("LIST").query_async(eye).await.expect("CLIENT answers");
        let (stored, listeners, connections) = (stored(eye).await, channels.len(), clients.lines().count());
        Traces { stored, listeners, connections, ..of_process() }
    }
}

/// How many keys there are but for the fences of slots.
async fn stored(eye: &mut MultiplexedConnection) -> usize {
    let (mut cursor, mut found) = (0_u64, 0);
    loop {
        let mut scan = redis::cmd("SCAN");
        let answer = scan.arg(cursor).arg("COUNT").arg(1_000).query_async(eye).await;
        let (next, keys): (u64, Vec<String>) = answer.expect("SCAN answers");
        found += keys.iter().filter(|key| !key.ends_with("}:fencing")).count();
        if next == 0 {
            return found;
        }
        cursor = next;
    }
}

fn of_process() -> Traces {
    let threads = std::fs::read_dir("/proc/self/task").expect("there is /proc");
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    let keepers = names.filter(|name| name.trim() == "lockrt-keeper").count();
    Traces { keepers, tasks: Handle::current().metrics().num_alive_tasks(), ..Traces::default() }
}
