//! Pairs of processes, of which one is stopped while the other one writes: [`Servers::inject`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Instant;

use lockrt::fence::postgres::SCHEMA;
use lockrt_tests::{PostgresServer, Program, RedisServer, SharedFolder};
use tokio::runtime::Runtime;

use crate::way::{Place, Way};
use crate::writer::TTL;

/// How many stops of a pair may be spoiled.
const SPOILED: u64 = 20;

/// Where the counters are, and the locks.
pub(crate) struct Servers {
    redis: RedisServer,
    postgres: PostgresServer,
    objects: SharedFolder,
    /// Drives the connection by which PostgreSQL was set up.
    _runtime: Runtime,
}

/// What came of the injections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// How often a process stood still between its read and its write past its lease, and the other one wrote.
    pub(crate) stops: u64,
    /// How often that was not so.
    pub(crate) uncounted: u64,
    pub(crate) refused: u64,
    pub(crate) applied: u64,
    /// Writes that were said to be done, less the counter.
    pub(crate) lost: u64,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let postgres = runtime.block_on(async {
            let server = PostgresServer::start().await;
            let table = "CREATE TABLE counter (
                id bigint PRIMARY KEY, n bigint NOT NULL, fencing_token bigint NOT NULL DEFAULT 0)";
            let raw = server.raw().await;
            raw.batch_execute(&format!("SET ROLE app; {SCHEMA}; {table}")).await.unwrap();
            server
        });
        Self { redis: RedisServer::start(), postgres, objects: SharedFolder::create(), _runtime: runtime }
    }

    /// Stops writers `stops` times in all, by so many pairs at once.
    pub(crate) fn inject(&self, way: Way, stops: u64, pairs: u64) -> Counts {
        let left = AtomicU64::new(stops);
        scope(|threads| {
            let pairs: Vec<_> =
                (0..pairs.min(stops)).map(|_| threads.spawn(|| self.pair(way, &left))).collect();
            pairs.into_iter().map(|pair| pair.join().unwrap()).fold(Counts::default(), Counts::add)
        })
    }

    /// Lets one pair raise a counter of its own until no injections are left.
    fn pair(&self, way: Way, left: &AtomicU64) -> Counts {
        static COUNTERS: AtomicU64 = AtomicU64::new(0);
        let id = COUNTERS.fetch_add(1, Ordering::Relaxed).to_string();
        let (lock, data) = match way.place() {
            Place::Row => (self.postgres.url(), self.postgres.url()),
            Place::Redis => (self.redis.url(), self.redis.url()),
            Place::Object => (self.redis.url(), self.objects.path().display().to_string()),
        };
        let program = std::env::current_exe().unwrap();
        let start = || Program::start(program.to_str().unwrap(), &["writer", way.word(), &lock, &data, &id]);
        let (mut paused, mut next) = (start(), start());
        let (mut counts, mut wrote) = (Counts::default(), 0);
        let took =
            || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        while took() {
            loop {
                paused.tell("stop");
                paused.stops();
                let stopped = Instant::now();
                next.tell("go");
                let meanwhile = wrote_it(way, &next.says());
                // The other one got the lock since the lease was over at the server; its holder counts from later.
                sleep(TTL.saturating_sub(stopped.elapsed()));
                // Something else on the machine may have let it go on: then it was not late.
                let overtaken = meanwhile && paused.stands_still();
                paused.resume();
                let applied = wrote_it(way, &paused.says());
                wrote += u64::from(meanwhile) + u64::from(applied);
                std::mem::swap(&mut paused, &mut next);
                if overtaken {
                    counts.stops += 1;
                    *if applied { &mut counts.applied } else { &mut counts.refused } += 1;
                    break;
                }
                counts.uncounted += 1;
                if counts.uncounted > SPOILED {
                    return counts;
                }
            }
        }
        // The one that has written last: the other one may have lost its connection.
        paused.tell("value");
        let value: u64 = paused.says().parse().unwrap();
        Counts { lost: wrote.checked_sub(value).unwrap(), ..counts }
    }
}

/// Whether an answer says that the write was done. Anything but that and a refusal is no result. Between comparison and
/// put it is the store that refuses, and its client may have repeated what was put: the counter tells that it was not.
fn wrote_it(way: Way, answer: &str) -> bool {
    let refused =
        answer.starts_with("refused ") || (way == Way::ObjectMidWrite && answer.starts_with("open "));
    assert!(answer == "wrote" || refused, "a writer has failed: {answer}");
    answer == "wrote"
}

impl Counts {
    fn add(self, other: Self) -> Self {
        Self {
            stops: self.stops + other.stops,
            uncounted: self.uncounted + other.uncounted,
            refused: self.refused + other.refused,
            applied: self.applied + other.applied,
            lost: self.lost + other.lost,
        }
    }
}
