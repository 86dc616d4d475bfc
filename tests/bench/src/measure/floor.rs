//! What the server can do at all, as `redis-benchmark` sees it.

use std::process::Command;

use crate::Result;
use crate::bench::Bench;
use crate::row::Found;
use crate::server::Server;

pub(super) fn measure(bench: &Bench) -> Result<Found> {
    let server = Server::start()?;
    let mut found = Found::default();
    let one = run(&server, "0", &["-c", "1", "-n", &bench.either(100_000, 20_000).to_string()])?;
    found.tell("redis-benchmark, one client, `SET NX PX`: p50", format!("{:.0} us", one.p50_us));
    let many = ["-c", "50", "-P", "16", "-n", &bench.either(1_000_000, 300_000).to_string()];
    let many = run(&server, "1", &many)?;
    found.tell(
        "redis-benchmark, 50 clients, 16 in flight each",
        format!("{:.0} thousand/s", many.per_second / 1e3),
    );
    Ok(found)
}

struct Floor {
    per_second: f64,
    p50_us: f64,
}

fn run(server: &Server, core: &str, options: &[&str]) -> Result<Floor> {
    let ran = Command::new("taskset")
        .args(["-c", core, "redis-benchmark", "--csv", "-p", &server.port().to_string()])
        .args(options)
        .args(["SET", "lock:bench:00000000000000000000", "owner", "NX", "PX", "10000"])
        .output()?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    read(&text).ok_or_else(|| format!("redis-benchmark has told {text}").into())
}

/// The last line: `"test","rps","avg","min","p50",..`, times in milliseconds.
fn read(text: &str) -> Option<Floor> {
    // The command itself is the first field, and free of commas.
    let mut fields = text.lines().last()?.split(',').skip(1).map(|field| field.trim_matches('"').parse());
    let per_second = fields.next()?.ok()?;
    let p50_ms: f64 = fields.nth(2)?.ok()?;
    Some(Floor { per_second, p50_us: p50_ms * 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_and_fifth_field_are_read() {
        let floor =
            read("\"test\",\"rps\"\n\"SET a\",\"1000.5\",\"0.03\",\"0.01\",\"0.020\",\"0.1\"\n").unwrap();
        assert_eq!((floor.per_second, floor.p50_us), (1000.5, 20.0));
    }
}
