//! A holder whose process is stopped between its check and its write, for longer than its lease.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::process::{Child, Command, Stdio};

use lockrt_tests::{RedisServer, soon, until};
use redis::AsyncCommands as _;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The program `stale_writes` as a worker that raises the counter once.
fn worker(server: &RedisServer, store: &str, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stale_writes"));
    command.args(["worker", "--url", &server.url(), "--store", store, "--rounds", "1"]).args(more);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// What a worker has said when it has ended.
async fn said(worker: Child) -> String {
    let ended = tokio::task::spawn_blocking(|| worker.wait_with_output().unwrap());
    String::from_utf8(soon("the worker's end", ended).await.unwrap().stdout).unwrap()
}

/// Kills a process that nobody waits for any more, stopped or not.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Stops one worker between check and write, lets another one in meanwhile, and lets the first go on.
/// What the two have said, and the counter in the end.
async fn overtaken(store: &str) -> [String; 3] {
    let server = RedisServer::start();
    let paused = worker(&server, store, &["--stop-every", "1"]);
    let stopped = Stopped(Pid::from_child(&paused));
    let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
    until("it has stopped", async || {
        waitpid(Some(stopped.0), options).unwrap().is_some_and(|(_, status)| status.stopped())
    })
    .await;
    let next = said(worker(&server, store, &[])).await;
    kill_process(stopped.0, Signal::CONT).unwrap();
    let paused = said(paused).await;
    [paused, next, server.raw().await.get("counter").await.unwrap()]
}

/// The fencing tokens that a text names.
fn tokens(text: &str) -> Vec<u64> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| digits.len() == 16);
    numbers.map(|digits| digits.parse().unwrap()).collect()
}

async fn the_stale_write_lands(store: &str) {
    let [paused, next, counter] = overtaken(store).await;
    assert_eq!([paused.trim(), next.trim()], ["wrote 1"; 2], "both were told that they have written");
    assert_eq!(counter, "1", "one of two increments is lost");
}

async fn the_stale_write_is_refused(store: &str) {
    let [paused, next, counter] = overtaken(store).await;
    assert_eq!((next.trim(), counter.as_str()), ("wrote 1", "1"));
    assert!(paused.starts_with("refused "), "{paused}");
    let tokens = tokens(&paused);
    assert!(matches!(tokens[..], [offered, stored] if offered < stored), "{paused}");
}

#[tokio::test]
async fn without_a_fence_its_write_lands() {
    the_stale_write_lands("naive").await;
}

#[tokio::test]
async fn after_a_check_its_write_lands_all_the_same() {
    the_stale_write_lands("checked").await;
}

#[tokio::test]
async fn a_registration_of_the_next_holder_refuses_its_write() {
    the_stale_write_is_refused("fenced").await;
}

#[tokio::test]
async fn a_write_of_the_next_holder_refuses_its_write() {
    the_stale_write_is_refused("compared").await;
}

#[tokio::test]
async fn one_write_per_grant_refuses_its_write() {
    the_stale_write_is_refused("once").await;
}
