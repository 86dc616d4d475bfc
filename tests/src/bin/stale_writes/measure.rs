//! One row of the table: workers on a server of their own, and somebody who stops them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lockrt_tests::RedisServer;

use crate::stops::Victim;
use crate::worker::COUNTER;
use crate::{Stops, Store};

/// Every so many rounds a worker stops itself between check and write.
const STOP_EVERY: u32 = 10;

/// What is measured.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) store: Store,
    pub(crate) stops: Stops,
    pub(crate) workers: u64,
    pub(crate) seconds: u64,
    /// After how many rounds a worker ends at the latest.
    pub(crate) rounds: u32,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) stops: u64,
    /// Writes of which the worker was told that they were done.
    pub(crate) done: u64,
    pub(crate) counter: u64,
    /// Writes that the store refused, and rounds given up because the check failed.
    pub(crate) refused: u64,
}

pub(crate) fn measure(plan: Plan) -> Measured {
    let server = RedisServer::start();
    let counts: Counts = Counts::default();
    thread::scope(|threads| {
        for number in 0..plan.workers {
            let (server, counts) = (&server, &counts);
            threads.spawn(move || counts.follow(plan, server, number));
        }
    });
    let mut raw = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let counter: Option<u64> = redis::cmd("GET").arg(COUNTER).query(&mut raw).unwrap();
    Measured {
        stops: counts.stops.into_inner(),
        done: counts.done.into_inner(),
        counter: counter.unwrap_or_default(),
        refused: counts.refused.into_inner(),
    }
}

#[derive(Default)]
struct Counts {
    stops: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    /// Runs one worker to its end, stops it meanwhile, and counts what it says.
    fn follow(&self, plan: Plan, server: &RedisServer, number: u64) {
        let every = if plan.stops == Stops::Between { STOP_EVERY } else { 0 };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("worker").args(["--url", &server.url(), "--store", &plan.store.to_string()]);
        command.args(["--seconds", &plan.seconds.to_string(), "--rounds", &plan.rounds.to_string()]);
        command.args(["--stop-every", &every.to_string()]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let victim = Victim::new(&process, server);
        thread::scope(|threads| {
            threads.spawn(|| {
                let stops = match plan.stops {
                    Stops::Between => victim.resume_whenever_it_stops(),
                    Stops::Random => victim.stop_at_random(number),
                };
                self.stops.fetch_add(stops, Ordering::Relaxed);
            });
            for line in lines {
                match line.unwrap().split(' ').next() {
                    Some("wrote") => self.done.fetch_add(1, Ordering::Relaxed),
                    Some("refused" | "lost") => self.refused.fetch_add(1, Ordering::Relaxed),
                    _ => 0,
                };
            }
        });
        // An error says that its end has been seen already, by who stopped it.
        let _ = process.wait();
    }
}
