//! One process that keeps many leases alive.

use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::bench::Bench;
use crate::command::{At, Bytes, Command};
use crate::contestant::Name;
use crate::process::{Driver, Start};
use crate::row::{Found, Goal};
use crate::server::Server;

/// Calls that are shorter are not looked at one by one.
const NOTED_US: u64 = 100;

/// No call is to take longer.
const LONG_US: u64 = 300;

/// What renewing has taken.
struct Renewed {
    server_us: f64,
    client_us: f64,
    calls: u64,
    /// The times of those that were noted.
    noted_us: Vec<u64>,
}

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let keys = bench.either(100_000, 20_000);
    let ours = renewed(bench, Name::Lockrt, keys, Duration::from_secs(bench.either(18, 6)))?;
    let theirs = renewed(bench, Name::AsyncRedisLock, 10_000, Duration::from_secs(bench.either(9, 6)))?;
    let mut found = Found::default();
    let thousands = keys / 1_000;
    found.judge(
        format!("lockrt renews {thousands} thousand leases: server"),
        format!("{:.2} us per key", ours.server_us),
        Goal::at_most(ours.server_us, 2.5, " us"),
    );
    found.judge(
        "... client",
        format!("{:.2} us per key", ours.client_us),
        Goal::at_most(ours.client_us, 0.6, " us"),
    );
    let longest_us = ours.noted_us.iter().copied().max().unwrap_or_default();
    let long = ours.noted_us.iter().filter(|us| **us > LONG_US).count();
    let longest = match longest_us {
        0 => format!("under {:.1} ms", NOTED_US as f64 / 1e3),
        us => format!(
            "{:.2} ms; {long} of {} take over {:.1} ms",
            us as f64 / 1e3,
            ours.calls,
            LONG_US as f64 / 1e3
        ),
    };
    let goal = Goal::at_most(longest_us as f64 / 1e3, LONG_US as f64 / 1e3, " ms");
    found.judge("... longest single call", longest, goal);
    found.tell(
        "async-redis-lock renews 10 thousand, each by a task",
        format!("server {:.2} us, client {:.2} us per key", theirs.server_us, theirs.client_us),
    );
    Ok(found)
}

fn renewed(bench: &Bench, name: Name, keys: usize, ttl: Duration) -> Result<Renewed> {
    let mut server = Server::start()?;
    server.send::<()>(&format!("CONFIG SET slowlog-log-slower-than {NOTED_US}"))?;
    server.send::<()>("CONFIG SET slowlog-max-len 10000")?;
    let mut driver = bench.start(Start { ttl, ..Start::one(name, 1) }, &server)?;
    driver.ask::<Bytes>(Command::Hold { keys })?;
    // The first renewals are due now; each key is renewed twice while we look.
    sleep(ttl / 3);
    server.send::<()>("SLOWLOG RESET")?;
    let (calls, renewals, cpu) = (server.spent("evalsha")?, server.spent("pexpire")?, cpu_ns(&mut driver)?);
    sleep(ttl * 2 / 3);
    let renewed = server.spent("pexpire")?.since(renewals).calls as f64;
    if renewed < keys as f64 {
        return Err(format!("only {renewed} of {keys} leases were renewed").into());
    }
    let client_us = (cpu_ns(&mut driver)? - cpu) as f64 / 1e3 / renewed;
    let spent = server.spent("evalsha")?.since(calls);
    let noted_us = noted_us(&mut server)?;
    Ok(Renewed { server_us: spent.us as f64 / renewed, client_us, calls: spent.calls, noted_us })
}

fn cpu_ns(driver: &mut Driver) -> Result<u64> {
    Ok(driver.ask::<At>(Command::Cpu)?.at_ns)
}

/// The times of the calls that the server has noted.
fn noted_us(server: &mut Server) -> Result<Vec<u64>> {
    let entries: Vec<Vec<redis::Value>> = server.send("SLOWLOG GET -1")?;
    let times = entries.iter().filter_map(|entry| match entry.get(2) {
        Some(redis::Value::Int(us)) => u64::try_from(*us).ok(),
        _ => None,
    });
    Ok(times.collect())
}
