//! One of a worker's tasks: it takes a lock, counts under it, and does so again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockrt::fence::FenceError;
use lockrt::{FencingToken, Lease, LockManager, LockPolicy, OnLost};
use tokio::time::{sleep, timeout};

use super::ledger::Ledger;
use super::record::{Cell, End, Record, now_ns, tell};
use super::spot::{LAST_TTL, Spot, TTL};
use crate::{Dice, polled};

/// How often a body looks at its lease while it works.
const TICK: Duration = Duration::from_millis(5);

/// How long renewals may keep a lock.
const RENEWED: Duration = Duration::from_secs(10);

/// How long a task waits for a lock at most.
const LONGEST_WAIT: Duration = Duration::from_millis(1_500);

/// What the tasks of one runtime share.
pub(super) struct Bench {
    pub(super) manager: LockManager,
    pub(super) ledger: Ledger,
    /// Whether three calls of ten are dropped on their way.
    pub(super) cancels: bool,
    /// Whether the store is told that every holder is the newest.
    pub(super) blind: bool,
    pub(super) stopping: AtomicBool,
    /// Whether the runtime is being dropped, and connections with it.
    pub(super) dropping: AtomicBool,
    /// How many bodies are running.
    pub(super) guards: AtomicU64,
}

/// How a lock is taken and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// A body that is dropped when its lease is lost, and looks at it before it writes.
    Careful { renews: bool },
    /// A guard taken by hand, whose owner renews and believes that this is enough.
    Naive,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    spot: Spot,
    style: Style,
    ttl: Duration,
    /// How long its body works.
    work: Duration,
    /// How long it waits for the lock; none if it does not.
    wait: Option<Duration>,
}

impl Job {
    fn draw(dice: &mut Dice) -> Self {
        let spot = Spot::draw(dice);
        let style = match dice.within(0..10) {
            0..3 => Style::Careful { renews: false },
            3..6 => Style::Careful { renews: true },
            _ => Style::Naive,
        };
        let work_ms = if dice.within(0..100) == 0 { 400..900 } else { 5..80 };
        let work = Duration::from_millis(dice.within(work_ms));
        let wait = (dice.within(0..10) < 7).then(|| Duration::from_millis(dice.within(100..1_500)));
        Self { spot, style, ttl: TTL, work, wait }
    }

    fn policy(&self) -> LockPolicy {
        let policy = LockPolicy::new(self.ttl).named("chaos").require_fencing();
        let policy = match self.wait {
            Some(wait) => policy.wait(wait),
            None => policy,
        };
        match self.style {
            Style::Careful { renews: false } => policy,
            Style::Careful { renews: true } => policy.renew(RENEWED),
            Style::Naive => policy.renew(RENEWED).on_lost(OnLost::Report),
        }
    }
}

/// Works until it is told to stop. One task of each worker goes round the hot keys, so that none of
/// them is left to chance.
pub(super) async fn toil(bench: Arc<Bench>, mut dice: Dice, goes_round: bool) {
    let mut round = Spot::hot().cycle();
    while !bench.stopping.load(Ordering::Relaxed) {
        let mut job = Job::draw(&mut dice);
        if let Some(spot) = round.next().filter(|_| goes_round) {
            job = Job { spot, wait: Some(LONGEST_WAIT), ..job };
        }
        bench.take_on(job, &mut dice).await;
        sleep(Duration::from_millis(dice.within(0..20))).await;
    }
}

/// Locks something that hardly anybody wants, once, as all others do now.
pub(super) async fn last(bench: Arc<Bench>, mut dice: Dice) {
    let (spot, job) = (Spot::cold(&mut dice), Job::draw(&mut dice));
    bench.take_on(Job { spot, ttl: LAST_TTL, work: TICK, wait: None, ..job }, &mut dice).await;
}

impl Bench {
    /// Carries a job out, or drops it on its way.
    async fn take_on(&self, job: Job, dice: &mut Dice) {
        let call = self.carry_out(job);
        let done = match dice.within(0..20) {
            0..3 if self.cancels => {
                let polls = usize::try_from(dice.within(0..6)).unwrap_or_default();
                let linger = Duration::from_millis(dice.within(0..5));
                polled(polls, call, sleep(linger)).await.is_some()
            }
            3..6 if self.cancels => timeout(Duration::from_millis(dice.within(0..40)), call).await.is_ok(),
            _ => {
                call.await;
                true
            }
        };
        if !done {
            tell(&Record::Cancelled);
        }
    }

    async fn carry_out(&self, job: Job) {
        let (key, policy) = (job.spot.key(), job.policy());
        let ask = Ask::new(job);
        let refusal = match job.style {
            Style::Careful { .. } => {
                let body = async |lease: &Lease| self.work(job, &ask, lease).await;
                self.manager.run(&key, &policy, body).await.err()
            }
            Style::Naive => match self.manager.acquire(&key, &policy).await {
                Ok(guard) => {
                    self.work(job, &ask, guard.lease()).await;
                    guard.release().await;
                    None
                }
                Err(refusal) => Some(refusal),
            },
        };
        if let Some(refusal) = refusal {
            ask.ended(now_ns(), End::of(&refusal));
        }
    }

    async fn work(&self, job: Job, ask: &Ask, lease: &Lease) {
        let Some(token) = lease.fencing() else {
            tell(&Record::Trouble { what: "a grant has no fencing token".into() });
            return;
        };
        let holding = Holding::begin(self, job.spot, token, ask, lease);
        if let Err(failure) = self.count(job, token, holding).await
            && !self.dropping.load(Ordering::Relaxed)
        {
            tell(&Record::Trouble { what: format!("the store has failed: {failure}") });
        }
    }

    /// Adds one to both counters of the key, as slowly as the job says.
    async fn count(&self, job: Job, token: FencingToken, mut holding: Holding<'_>) -> Result<(), Failure> {
        let Job { spot, work, style, .. } = job;
        let shown = |token| if self.blind { FencingToken::new(now_ns()) } else { token };
        let plain = self.ledger.read(Cell::Plain, spot).await?;
        let entered = passed(self.ledger.register(spot, shown(token)).await)?;
        let fenced = self.ledger.read(Cell::Fenced, spot).await?;
        holding.look();
        let ready = now_ns() + u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        while let left @ 1.. = ready.saturating_sub(now_ns()) {
            sleep(Duration::from_nanos(left).min(TICK)).await;
            holding.look();
        }
        if !holding.look() && style != Style::Naive {
            return Ok(());
        }
        holding.tell();
        self.ledger.write(spot, plain + 1).await?;
        let grant = holding.grant;
        tell(&Record::Added { grant, cell: Cell::Plain });
        let written = entered && passed(self.ledger.write_fenced(spot, shown(token), fenced + 1).await)?;
        tell(&if written { Record::Added { grant, cell: Cell::Fenced } } else { Record::Refused { grant } });
        holding.look();
        Ok(())
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Whether the fence has let a holder pass.
fn passed(answer: Result<(), FenceError>) -> Result<bool, Failure> {
    match answer {
        Ok(()) => Ok(true),
        Err(FenceError::Stale { .. }) => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

/// One acquire, until it is told how it ended.
struct Ask {
    asked_ns: u64,
    limit: Duration,
    waits: bool,
    ended: AtomicBool,
}

impl Ask {
    fn new(job: Job) -> Self {
        let (limit, waits) = (job.wait.unwrap_or(job.ttl), job.wait.is_some());
        Self { asked_ns: now_ns(), limit, waits, ended: AtomicBool::new(false) }
    }

    fn ended(&self, ended_ns: u64, end: End) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let limit_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
        tell(&Record::Asked { asked_ns: self.asked_ns, ended_ns, limit_ns, waits: self.waits, end });
    }
}

/// A lock that is held, and when its lease said so. Told at its end, and before anything that may be
/// the last thing that this process does.
struct Holding<'a> {
    bench: &'a Bench,
    lease: Lease,
    grant: u64,
    used: Option<(u64, u64)>,
}

impl<'a> Holding<'a> {
    fn begin(bench: &'a Bench, spot: Spot, token: FencingToken, ask: &Ask, lease: &Lease) -> Self {
        static GRANTS: AtomicU64 = AtomicU64::new(1);
        let answered_ns = now_ns();
        let grant = GRANTS.fetch_add(1, Ordering::Relaxed);
        bench.guards.fetch_add(1, Ordering::Relaxed);
        let mut holding = Self { bench, lease: lease.clone(), grant, used: None };
        holding.look();
        ask.ended(answered_ns, End::Granted);
        tell(&Record::Granted { grant, spot, token: token.get(), asked_ns: ask.asked_ns, answered_ns });
        holding.tell();
        holding
    }

    /// Asks the lease. The clock is read before, so that a process that is stopped in between does
    /// not say too much.
    fn look(&mut self) -> bool {
        let now = now_ns();
        let valid = self.lease.check().is_ok();
        if valid {
            self.used = Some((self.used.map_or(now, |(first, _)| first), now));
        }
        valid
    }

    fn tell(&self) {
        if let Some((first_ns, last_ns)) = self.used {
            tell(&Record::Used { grant: self.grant, first_ns, last_ns });
        }
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.tell();
        self.bench.guards.fetch_sub(1, Ordering::Relaxed);
    }
}
