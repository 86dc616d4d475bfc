//! Stopping a process, and letting it go on.

use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lockrt_tests::{Dice, RedisServer};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::worker::COUNTER;

/// How long a process stands still; longer than its lease.
const STOP: Duration = Duration::from_millis(400);
/// A machine under load may let nobody else write within that time; how long that is waited for.
const OVERTAKEN_WITHIN: Duration = Duration::from_secs(5);
/// How long a process runs between two stops at random points.
const RUN_MS: std::ops::Range<u64> = 500..3_500;

pub(crate) struct Victim<'a> {
    pid: Pid,
    server: &'a RedisServer,
}

impl<'a> Victim<'a> {
    pub(crate) fn new(process: &Child, server: &'a RedisServer) -> Self {
        Self { pid: Pid::from_child(process), server }
    }

    /// Whenever the process has stopped itself, lets it go on when its time is over and somebody else has
    /// written. How often that was, when the process has ended.
    pub(crate) fn resume_whenever_it_stops(&self) -> u64 {
        let mut raw = redis::Client::open(self.server.url()).unwrap().get_connection().unwrap();
        let mut stops = 0;
        while let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::UNTRACED) {
            if !status.stopped() {
                break;
            }
            let mut counter = || redis::cmd("GET").arg(COUNTER).query::<Option<u64>>(&mut raw).unwrap();
            let (before, began) = (counter(), Instant::now());
            sleep(STOP);
            while counter() == before && began.elapsed() < OVERTAKEN_WITHIN {
                sleep(Duration::from_millis(5));
            }
            stops += 1;
            self.signal(Signal::CONT);
        }
        stops
    }

    /// Stops the process at points that `seed` chooses and lets it go on each time, until it has ended. How
    /// often that was.
    pub(crate) fn stop_at_random(&self, seed: u64) -> u64 {
        let (mut dice, mut stops) = (Dice::new(seed), 0);
        loop {
            sleep(Duration::from_millis(dice.within(RUN_MS)));
            if !matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None)) {
                return stops;
            }
            self.signal(Signal::STOP);
            sleep(STOP);
            self.signal(Signal::CONT);
            stops += 1;
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }
}
