//! A holder in another process that is killed, stopped past its lease, or cut off from the lock service.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use lockrt::{LockGuard, LockKey, LockPolicy};
use lockrt_tests::{Fault, Proxy, RedisServer, Row, Setup, soon, until};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

const TTL: Duration = Duration::from_millis(800);
/// Of whoever comes next.
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).wait_forever();

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// The program `holder`, killed on drop.
struct Holder {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// One whose body is polled all the time.
    fn start(url: &str) -> Self {
        let mut holder = Self::hold(url, &[]);
        assert!(holder.says().starts_with("poll "), "its body is polled");
        holder
    }

    /// One that has checked its lease and is about to write.
    fn writing(url: &str, row: &Row) -> Self {
        let mut holder = Self::hold(url, &[&row.url, if row.fenced { "fenced" } else { "plain" }]);
        assert_eq!(holder.says(), "writing");
        holder
    }

    fn hold(url: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holder"));
        command.args([url, KEY.as_str(), &TTL.as_millis().to_string()]).args(more);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut holder = Self { process, lines };
        assert_eq!(holder.says(), "held");
        holder
    }

    fn says(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Lets it send its write; gives what it says of it.
    fn writes(&mut self) -> String {
        self.process.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        self.signal(Signal::CONT);
        self.says()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The next owner, once the lease of the one before it has ended.
async fn next(server: &RedisServer) -> LockGuard {
    soon("the lock", server.manager().acquire(&KEY, &POLICY)).await.unwrap()
}

#[tokio::test]
async fn a_body_that_is_resumed_past_its_deadline_is_not_polled_again() {
    let server = RedisServer::start();
    let mut holder = Holder::start(&server.url());
    holder.signal(Signal::STOP);
    until("its lease has expired", async || server.held().await == 0).await;
    let resumed = UNIX_EPOCH.elapsed().unwrap().as_millis();
    holder.signal(Signal::CONT);
    loop {
        let line = holder.says();
        if let Some(polled) = line.strip_prefix("poll ") {
            let polled: u128 = polled.parse().unwrap();
            assert!(polled < resumed, "polled {} ms after it was resumed", polled - resumed);
        } else {
            assert_eq!(line, "ended lost");
            return;
        }
    }
}

#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl_and_its_token_is_smaller() {
    let server = RedisServer::start();
    let before = server.manager().acquire(&KEY, &POLICY).await.unwrap();
    let first = before.lease().fencing().unwrap();
    before.release().await;
    let mut holder = Holder::start(&server.url());
    holder.process.kill().unwrap();
    let killed = Instant::now();
    assert!(server.manager().try_acquire(&KEY, &POLICY).await.unwrap_err().is_contended());
    let next = next(&server).await;
    assert!(killed.elapsed() <= TTL + RedisServer::SLACK, "{:?}", killed.elapsed());
    // The killed process had a token in between.
    assert!(next.lease().fencing().unwrap().get() > first.get() + 1);
}

#[tokio::test]
async fn a_holder_that_is_cut_off_is_stopped_before_the_next_one_gets_in() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let url = proxy.url();
    // It talks through the proxy, which is a task of this runtime.
    let mut holder = tokio::task::spawn_blocking(move || Holder::start(&url)).await.unwrap();
    proxy.set(Fault::Silence);
    let next = next(&server).await;
    let entered = UNIX_EPOCH.elapsed().unwrap().as_millis();
    loop {
        match holder.says() {
            line if line.starts_with("poll ") => {
                let polled: u128 = line["poll ".len()..].parse().unwrap();
                assert!(polled <= entered, "polled {} ms after the next one got in", polled - entered);
            }
            line => break assert_eq!(line, "ended lost"),
        }
    }
    next.lease().check().unwrap();
}

/// What becomes of a write that its holder began before its lease ended and sends after it, when
/// somebody else has written meanwhile. `ends` ends the lease behind the holder's back.
async fn write_past_the_lease(fenced: bool, cut: bool) -> (String, String) {
    let (server, store) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::start(server.port(), 1).await;
    let row = Row { url: store.url(), fenced };
    let (url, its_row) = (proxy.url(), row.clone());
    let mut holder = tokio::task::spawn_blocking(move || Holder::writing(&url, &its_row)).await.unwrap();
    if cut {
        proxy.set(Fault::Silence);
    } else {
        holder.signal(Signal::STOP);
    }
    let next = next(&server).await;
    let mut row = row.open();
    assert!(row.write("new", next.lease().fencing().unwrap().get()));
    let told = holder.writes();
    assert_eq!(holder.says(), "ended lost", "at its next await");
    next.lease().check().unwrap();
    (told, row.value())
}

fn outcome(told: &str, left: &str) -> (String, String) {
    (told.to_owned(), left.to_owned())
}

#[tokio::test]
async fn a_holder_that_was_stopped_past_its_lease_overwrites_a_store_that_does_not_compare_tokens() {
    // Its check was right when it was made: no client can prevent this.
    assert_eq!(write_past_the_lease(false, false).await, outcome("written", "stale"));
}

#[tokio::test]
async fn a_holder_that_was_stopped_past_its_lease_is_refused_by_a_store_that_compares_tokens() {
    assert_eq!(write_past_the_lease(true, false).await, outcome("refused", "new"));
}

#[tokio::test]
async fn a_holder_that_was_cut_off_overwrites_a_store_that_does_not_compare_tokens() {
    assert_eq!(write_past_the_lease(false, true).await, outcome("written", "stale"));
}

#[tokio::test]
async fn a_holder_that_was_cut_off_is_refused_by_a_store_that_compares_tokens() {
    assert_eq!(write_past_the_lease(true, true).await, outcome("refused", "new"));
}
