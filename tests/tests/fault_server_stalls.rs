//! A server that stops for two seconds, keeps its connections, and goes on.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockError, LockKey, LockPolicy, LossReason};
use lockrt_tests::{RedisServer, Setup, soon, together, until};
use tokio::time::{sleep, timeout};

const SLACK: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_secs(2);
const SHORT: LockPolicy = LockPolicy::new(Duration::from_secs(1));
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(6));
const RENEWED: Duration = Duration::from_secs(600);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());
static OTHER: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:8").unwrap());

/// Why the server stops.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// Its process does.
    Process,
    /// Somebody else's command takes so long.
    Command,
    /// An administrator pauses its clients.
    Clients,
    /// Those of them that write.
    Writers,
}

const CAUSES: [Cause; 4] = [Cause::Process, Cause::Command, Cause::Clients, Cause::Writers];

impl Cause {
    fn server() -> RedisServer {
        RedisServer::start_with(&["--enable-debug-command", "yes"])
    }

    /// Stops the server for [`STALL`] from now on.
    async fn begin(self, server: &RedisServer) {
        let millis = STALL.as_millis().to_string();
        let command: &[&str] = match self {
            Self::Process => {
                server.pause();
                return;
            }
            Self::Command => &["DEBUG", "SLEEP", "2"],
            Self::Clients => &["CLIENT", "PAUSE", &millis, "ALL"],
            Self::Writers => &["CLIENT", "PAUSE", &millis, "WRITE"],
        };
        let mut raw = server.raw().await;
        let (name, arguments) = (command[0].to_owned(), command[1..].iter().map(ToString::to_string));
        let arguments: Vec<String> = arguments.collect();
        let call = async move {
            redis::cmd(&name).arg(&arguments).exec_async(&mut raw).await.unwrap();
        };
        if let Self::Command = self {
            // It answers when it is over.
            tokio::spawn(call);
            sleep(Duration::from_millis(50)).await;
        } else {
            call.await;
        }
    }

    /// Waits until it is over.
    async fn end(self, begun: Instant, server: &RedisServer) {
        tokio::time::sleep_until((begun + STALL).into()).await;
        server.resume();
    }
}

async fn a_lease_longer_than(cause: Cause) {
    let server = Cause::server();
    let manager = server.manager();
    let holder = manager.acquire(&KEY, &LONG.renew(RENEWED)).await.unwrap();
    sleep(LONG.ttl() / 4).await;
    let begun = Instant::now();
    cause.begin(&server).await;
    cause.end(begun, &server).await;
    while begun.elapsed() < LONG.ttl() * 5 / 4 {
        holder.lease().check().unwrap_or_else(|loss| panic!("{cause:?}: {loss}"));
        sleep(LONG.ttl() / 100).await;
    }
}

#[tokio::test]
async fn a_lease_longer_than_the_stall_is_renewed_after_it() {
    together(CAUSES, a_lease_longer_than).await;
}

async fn a_lease_shorter_than(cause: Cause) {
    let server = Cause::server();
    let (manager, other) = (server.manager(), server.manager());
    let started = Instant::now();
    let holder = manager.acquire(&KEY, &SHORT.renew(RENEWED)).await.unwrap();
    let begun = Instant::now();
    cause.begin(&server).await;
    let loses = async {
        let loss = holder.lease().lost().await;
        assert!(matches!(loss, LockError::Lost { reason: LossReason::Expired, .. }), "{cause:?}: {loss}");
        let took = started.elapsed();
        assert!(took >= SHORT.ttl() * 98 / 100 && took <= SHORT.ttl() + SLACK, "{cause:?}: {took:?}");
    };
    let ((), ()) = tokio::join!(loses, cause.end(begun, &server));
    let next = soon("the lock", other.acquire(&KEY, &LONG.wait_forever())).await.unwrap();
    assert!(next.lease().fencing() > holder.lease().fencing(), "{cause:?}");
    // Calls that the server has carried out late harm nobody.
    drop(holder);
    lockrt_tests::settled(manager, "the holder").await;
    assert!(other.try_acquire(&KEY, &LONG).await.unwrap_err().is_contended(), "{cause:?}");
}

#[tokio::test]
async fn a_lease_shorter_than_the_stall_is_lost_at_its_deadline() {
    together(CAUSES, a_lease_shorter_than).await;
}

async fn callers_during(cause: Cause) {
    let server = Cause::server();
    let (patient, hasty, gone) = (server.manager(), server.manager(), server.manager());
    for manager in [&patient, &hasty, &gone] {
        manager.acquire(&OTHER, &LONG).await.unwrap().release().await;
    }
    let begun = Instant::now();
    cause.begin(&server).await;
    let waits = async {
        let guard = patient.acquire(&KEY, &LONG).await.unwrap_or_else(|error| panic!("{cause:?}: {error}"));
        assert!(begun.elapsed() >= STALL * 19 / 20, "{cause:?}: the server answered");
        drop(guard);
    };
    let gives_up = async {
        let asked = Instant::now();
        let refusal = hasty.acquire(&OTHER, &SHORT).await.unwrap_err();
        assert!(refusal.is_unavailable(), "{cause:?}: {refusal}");
        assert!(asked.elapsed() <= SHORT.ttl() + SLACK, "{cause:?}: {:?}", asked.elapsed());
    };
    let cancels = async {
        let long = LockPolicy::new(Duration::from_secs(600));
        for number in 0..10 {
            let key = LockKey::of("gone:").part(&number).build().unwrap();
            assert!(timeout(STALL / 20, gone.acquire(&key, &long)).await.is_err(), "{cause:?}");
        }
    };
    tokio::join!(waits, gives_up, cancels, cause.end(begun, &server));
    // The server carries out what it was sent meanwhile, and the keepers clean up, long before the
    // keys would expire.
    let mut free_since = Instant::now();
    until("no key is left for good", async || {
        if server.held().await > 0 {
            free_since = Instant::now();
        }
        free_since.elapsed() > Duration::from_millis(500)
    })
    .await;
}

#[tokio::test]
async fn callers_are_granted_after_the_stall_or_learn_in_time_or_leave_nothing() {
    together(CAUSES, callers_during).await;
}
