//! A holder whose process is stopped past its lease, or killed.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use lockrt::{LockKey, LockPolicy};
use lockrt_tests::{RedisServer, Setup, soon, until};
use rustix::process::{Pid, Signal, kill_process};

const TTL_MS: u64 = 800;

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// The program `holder`, killed on drop.
struct Holder {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(server: &RedisServer) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holder"));
        command.args([&server.url(), KEY.as_str(), &TTL_MS.to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut holder = Self { process, lines };
        assert_eq!(holder.says(), "held");
        assert!(holder.says().starts_with("poll "), "its body is polled");
        holder
    }

    fn says(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
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

#[tokio::test]
async fn a_body_that_is_resumed_past_its_deadline_is_not_polled_again() {
    let server = RedisServer::start();
    let mut holder = Holder::start(&server);
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
    let manager = server.manager();
    let policy = LockPolicy::new(Duration::from_secs(60)).wait_forever();
    let before = manager.acquire(&KEY, &policy).await.unwrap();
    let first = before.lease().fencing().unwrap();
    before.release().await;
    let mut holder = Holder::start(&server);
    holder.process.kill().unwrap();
    assert!(manager.try_acquire(&KEY, &policy).await.unwrap_err().is_contended());
    let next = soon("the lock", manager.acquire(&KEY, &policy)).await.unwrap();
    // The killed process had a token in between.
    assert!(next.lease().fencing().unwrap().get() > first.get() + 1);
}
