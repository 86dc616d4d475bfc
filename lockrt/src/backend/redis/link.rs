//! The one connection in use, its replacement, and pauses between attempts to connect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{AsyncConnectionConfig, RedisError};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::backend::redis::connection::{Connection, Ear, Home};
use crate::backend::redis::failure;
use crate::backend::redis::names::Names;
use crate::backend::redis::places::Places;
use crate::backend::redis::server::Server;
use crate::backoff::{Backoff, spread};
use crate::clock::{Clock, Moment};
use crate::error::BackendError;

/// After this long without a failure the pauses start short again.
const CALM: Duration = Duration::from_secs(5);

type Opened = Result<Arc<Connection>, BackendError>;

/// The way to the server. At most one attempt to connect is under way, whoever asks.
pub(super) struct Link {
    server: Server,
    settings: AsyncConnectionConfig,
    home: Home,
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
    pub(super) fn new(server: Server, ear: Ear) -> Self {
        Self::at(Home::Keeper, server, ear)
    }

    /// The way from the runtime of a caller.
    pub(super) fn of_caller(server: Server, ear: Ear) -> Self {
        Self::at(Home::Caller, server, ear)
    }

    fn at(home: Home, server: Server, ear: Ear) -> Self {
        let (phase, last_failure) = (Phase::Idle, Moment::from_nanos(0));
        Self {
            server,
            settings: home.settings(),
            home,
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

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn ear(&self) -> &Ear {
        &self.ear
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
                    let runtime = Handle::try_current().map_err(|_| {
                        BackendError::not_applied("the Redis backend runs on a tokio runtime").permanent()
                    })?;
                    let opening = self.start_opening(&runtime);
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

    /// The connection if there is one by now, else an attempt to make one in `runtime` begins, unless one
    /// has failed just before.
    pub(super) fn ready(self: &Arc<Self>, runtime: &Handle) -> Option<Arc<Connection>> {
        let mut state = self.state();
        match &state.phase {
            Phase::Open(connection) if connection.is_usable() => return Some(Arc::clone(connection)),
            Phase::Open(_) => state.fail(BackendError::unknown("the connection to Redis broke")),
            Phase::Failed(until, _) if Clock::system().now() < *until => {}
            Phase::Opening(opening) if opening.has_changed().is_ok() => {}
            // Whoever was connecting is gone without a word: that runtime has no network.
            Phase::Opening(_) => {
                state.phase = Phase::Failed(Moment::FAR, BackendError::not_applied("no network here"));
            }
            Phase::Idle | Phase::Failed(..) => state.phase = Phase::Opening(self.start_opening(runtime)),
        }
        None
    }

    /// What `error` means for a call on `connection`. A server that was deposed is left: its name may
    /// lead to another one by now.
    pub(super) fn failed(&self, connection: &Connection, error: &RedisError) -> BackendError {
        let failure = failure::after_sending(error);
        if failure::is_deposed(error) {
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

    fn start_opening(self: &Arc<Self>, runtime: &Handle) -> watch::Receiver<Option<Opened>> {
        let (sender, receiver) = watch::channel(None);
        let link = Arc::clone(self);
        runtime.spawn(async move {
            let (opened, memory) = link.open().await;
            sender.send_replace(Some(opened));
            // Last, since nobody knows what the receiver of warnings does.
            if link.home == Home::Keeper
                && let Some(warning) = memory.as_deref().and_then(may_evict)
            {
                (link.warn)(&warning);
            }
        });
        receiver
    }

    /// Connects once. Gives also what the server says of its memory.
    async fn open(&self) -> (Opened, Option<String>) {
        let opened = Connection::open(&self.server, self.settings.clone(), &self.ear, self.home).await;
        let mut state = self.state();
        match opened {
            Ok((connection, memory)) => {
                state.phase = Phase::Open(Arc::clone(&connection));
                (Ok(connection), memory)
            }
            Err(failure) => {
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
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicU16, Ordering};

    use redis::RedisFuture;
    use redis::io::AsyncDNSResolver;
    use tokio::net::TcpListener;

    use super::*;

    /// Where a name leads at the moment.
    struct Name(Arc<AtomicU16>);

    impl AsyncDNSResolver for Name {
        fn resolve<'a, 'b: 'a>(
            &'a self,
            host: &'b str,
            _: u16,
        ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
            assert_eq!(host, "locks.example");
            let address = SocketAddr::from(([127, 0, 0, 1], self.0.load(Ordering::Relaxed)));
            Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Box<_>) })
        }
    }

    #[tokio::test]
    async fn a_name_is_looked_up_again_for_each_connection() {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let second = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let leads_to = Arc::new(AtomicU16::new(first.local_addr().unwrap().port()));
        let ear = Ear { names: Names::new("lockrt:", 1), places: Arc::default() };
        let mut link =
            Link::new(crate::backend::redis::url::server("redis://locks.example:6379").unwrap(), ear);
        link.settings = Home::Keeper.settings().set_dns_resolver(Name(Arc::clone(&leads_to)));
        let link = Arc::new(link);
        for server in [first, second] {
            leads_to.store(server.local_addr().unwrap().port(), Ordering::Relaxed);
            // The server closes each connection, and the pauses in between are short.
            let asking = async {
                loop {
                    assert!(link.connection().await.is_err());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            let found = tokio::time::timeout(Duration::from_secs(5), server.accept());
            tokio::select! {
                found = found => drop(found.unwrap().unwrap()),
                () = asking => {}
            }
        }
    }

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
