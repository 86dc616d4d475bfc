//! What a lock that is held, and a caller that waits for one, take in client and server.

use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::command::{At, Bytes, Command};
use crate::contestant::Name;
use crate::process::Start;
use crate::row::{Found, Goal};
use crate::server::Server;

const KEYS: usize = 100_000;
const WAITERS: usize = 10_000;

/// Bytes per lock, and what the server keeps however many there are.
struct Held {
    client: f64,
    server: f64,
    constant_mb: f64,
}

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let ours = held(bench, Name::Lockrt)?;
    let theirs = held(bench, Name::Rslock)?;
    let mut found = Found::default();
    found.judge(
        "lockrt, each of 100 thousand held locks: client, beside its guard",
        format!("{:.0} B", ours.client),
        Goal::at_most(ours.client, 64.0, " B").steady(),
    );
    found.judge(
        "... server",
        format!("{:.0} B", ours.server),
        Goal::at_most(ours.server, 240.0, " B").steady(),
    );
    found.judge(
        "... fences of all slots, however many locks",
        format!("{:.2} MB", ours.constant_mb),
        Goal::at_most(ours.constant_mb, 1.4, " MB").steady(),
    );
    found.tell(
        "rslock, each of 100 thousand held locks",
        format!("client {:.0} B, server {:.0} B", theirs.client, theirs.server),
    );
    let (client, server) = waiting(bench)?;
    found.judge(
        "lockrt, each of 10 thousand waiters of one client: client, beside its future",
        format!("{client:.0} B"),
        Goal::at_most(client, 200.0, " B").steady(),
    );
    found.tell("... server", format!("{server:.1} B"));
    Ok(found)
}

fn held(bench: &Bench, name: Name) -> Result<Held> {
    let mut server = Server::start()?;
    let mut driver = bench.start(Start { ttl: Duration::from_secs(300), ..Start::one(name, 1) }, &server)?;
    let before = server.number("memory", "used_memory")?;
    let bytes: Bytes = driver.ask(Command::Hold { keys: KEYS })?;
    // A hash table that grows keeps its old half until all of it has moved.
    server.send::<u64>("DBSIZE")?;
    std::thread::sleep(Duration::from_millis(500));
    let grown = server.number("memory", "used_memory")? - before;
    let fences: Vec<String> = server.send("KEYS *}:fencing")?;
    let each: f64 = match fences.first() {
        Some(fence) => server.send(&format!("MEMORY USAGE {fence}"))?,
        None => 0.0,
    };
    let constant = each * fences.len() as f64;
    Ok(Held {
        client: bytes.after.saturating_sub(bytes.before) as f64 / KEYS as f64,
        server: (grown - constant) / KEYS as f64,
        constant_mb: constant / 1e6,
    })
}

/// Bytes of a waiter in client and server.
fn waiting(bench: &Bench) -> Result<(f64, f64)> {
    let mut server = Server::start()?;
    let start = Start { ttl: Duration::from_secs(300), ..Start::one(Name::Lockrt, 1) };
    let (mut holder, mut waiters) = (bench.start(start, &server)?, bench.start(start, &server)?);
    holder.ask::<At>(Command::Acquire)?;
    let before = server.number("memory", "used_memory")?;
    let bytes: Bytes = waiters.ask(Command::Park { waiters: WAITERS })?;
    let grown = server.number("memory", "used_memory")? - before;
    let client = bytes.after.saturating_sub(bytes.before) as f64 / WAITERS as f64;
    Ok((client, grown.max(0.0) / WAITERS as f64))
}
