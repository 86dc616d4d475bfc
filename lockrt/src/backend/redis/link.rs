//! The one connection in use, its replacement, and pauses between attempts to connect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Client, RedisError};
use tokio::sync::watch;

use crate::backend::redis::connection::{Connection, Ear};
use crate::backend::redis::failure;
use crate::backend::redis::names::Names;
use crate::backend::redis::places::Places;
use crate::backoff::{Backoff, spread};
use crate::clock::{Clock, Moment};
use crate::error::BackendError;

/// After this long without a failure the pauses start short again.
const CALM: Duration = Duration::from_secs(5);

type Opened = Result<Arc<Connection>, BackendError>;

/// The way to the server. At most one attempt to connect is under way, whoever asks.
pub(super) struct Link {
    client: Client,
    ear: Ear,
    warn: fn(&str),
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    failures: Backoff,
    last_failure: Moment,
}

enum Phase {
    /// Never connected.
    Idle,
    /// A task connects. Its sender is dropped with it, also when its runtime ends.
    Opening(watch::Receiver<Option<Opened>>),
    Open(Arc<Connection>),
    /// Until then every call gets this failure again, so that no number of callers makes a storm.
    Failed(Moment, BackendError),
}

impl Link {
    pub(super) fn new(client: Client, ear: Ear) -> Self {
        let (phase, last_failure) = (Phase::Idle, Moment::from_nanos(0));
        Self {
            client,
            ear,
            warn: |_| {},
            state: Mutex::new(State { phase, failures: Backoff::unanswered(), last_failure }),
        }
    }

    pub(super) fn warn_by(&mut self, warn: fn(&str)) {
        self.warn = warn;
    }

    pub(super) fn name_by(&mut self, names: Names) {
        self.ear.names = names;
    }

    pub(super) fn names(&self) -> &Names {
        &self.ear.names
    }

    pub(super) fn places(&self) -> &Places {
        &self.ear.places
    }

    /// The connection, made first if there is none.
    ///
    /// Dropping this does not stop the attempt, which would else never come to an end for callers
    /// with little time.
    pub(super) async fn connection(self: &Arc<Self>) -> Opened {
        let mut opening = {
            let mut state = self.state();
            match &state.phase {
                Phase::Open(connection) if connection.is_usable() => return Ok(Arc::clone(connection)),
                Phase::Failed(until, failure) if Clock::system().now() < *until => {
                    return Err(failure.clone());
                }
                Phase::Opening(opening) if opening.has_changed().is_ok() => opening.clone(),
                _ => {
                    let opening = self.start_opening()?;
                    state.phase = Phase::Opening(opening.clone());
                    opening
                }
            }
        };
        match opening.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(opened)) => opened.clone(),
            _ => Err(BackendError::not_applied("the runtime that was connecting to Redis has ended")),
        }
    }

    /// What `error` means for a call on `connection`. A server that has become read-only is left:
    /// its name may lead to another one by now.
    pub(super) fn failed(&self, connection: &Connection, error: &RedisError) -> BackendError {
        let failure = failure::after_sending(error);
        if failure::is_read_only(error) {
            connection.close();
            let mut state = self.state();
            // Another call may have replaced it already.
            if matches!(&state.phase, Phase::Open(current) if std::ptr::eq(&raw const **current, connection))
            {
                state.fail(failure.clone());
            }
        }
        failure
    }

    fn start_opening(self: &Arc<Self>) -> Result<watch::Receiver<Option<Opened>>, BackendError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            BackendError::not_applied("the Redis backend runs on a tokio runtime").permanent()
        })?;
        let (sender, receiver) = watch::channel(None);
        let link = Arc::clone(self);
        runtime.spawn(async move {
            let (opened, memory) = link.open().await;
            sender.send_replace(Some(opened));
            // Last, since nobody knows what the receiver of warnings does.
            if let Some(warning) = memory.as_deref().and_then(may_evict) {
                (link.warn)(&warning);
            }
        });
        Ok(receiver)
    }

    /// Connects once. Gives also what the server says of its memory.
    async fn open(&self) -> (Opened, Option<String>) {
        let opened = Connection::open(&self.client, &self.ear).await;
        let mut state = self.state();
        match opened {
            Ok((connection, memory)) => {
                state.phase = Phase::Open(Arc::clone(&connection));
                (Ok(connection), memory)
            }
            Err(error) => {
                let failure = failure::before_sending(&error);
                state.fail(failure.clone());
                (Err(failure), None)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fail(&mut self, failure: BackendError) {
        let now = Clock::system().now();
        if now.since(self.last_failure) > CALM {
            self.failures = Backoff::unanswered();
        }
        self.last_failure = now;
        self.phase = Phase::Failed(now + spread(self.failures.pause(), now.as_nanos()), failure);
    }
}

/// A warning if `INFO memory` tells of a server that may drop locks when its memory is full.
fn may_evict(memory: &str) -> Option<String> {
    let value = |name: &str| {
        memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let (policy, limit) = (value("maxmemory_policy")?, value("maxmemory")?);
    if limit == "0" || policy == "noeviction" {
        return None;
    }
    Some(format!(
        "this Redis server evicts keys when its memory is full (maxmemory-policy {policy}), held locks among \
         them; set maxmemory-policy noeviction, or give locks a server of their own"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_with_a_limit_and_an_eviction_policy_is_warned_about() {
        let info = |limit: u32, policy: &str| {
            may_evict(&format!(
                "# Memory\r\nused_memory:1\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
            ))
        };
        assert!(info(1_000, "volatile-ttl").unwrap().contains("volatile-ttl"));
        assert_eq!(info(0, "volatile-ttl"), None);
        assert_eq!(info(1_000, "noeviction"), None);
        assert_eq!(may_evict("nothing of use"), None);
    }
}
