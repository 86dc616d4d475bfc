//! How a lock is taken: the only loop that waits.

use std::pin::{Pin, pin};
use std::time::Duration;

use crate::claim::{Claim, whole_ms};
use crate::clock::Moment;
use crate::error::{BackendError, LockError};
use crate::gate::{Gate, Turn};
use crate::guard::LockGuard;
use crate::keeper::{Ended, Keeper, Seat, Woken};
use crate::key::LockKey;
use crate::lease::{Lease, is_polled_under};
use crate::observe::{self, Waits};
use crate::policy::{Contention, LockPolicy, OnCancel, Renewal};
use crate::protocol::kept::{Terms, Told};
use crate::protocol::waiting::{Event, Step, Waiting};
use crate::token::{FencingToken, OwnerLabel, OwnerToken};

/// Everything that an acquire of one manager needs.
#[derive(Debug)]
pub(crate) struct Acquirer {
    pub(crate) keeper: Keeper,
    pub(crate) gate: Gate,
    /// Tells managers of one process apart.
    pub(crate) manager: u64,
    pub(crate) prefix: String,
    pub(crate) label: OwnerLabel,
}

/// Why an acquire ended without a lock, before it is known whose it was.
enum Refusal {
    Contended { waited: Duration, free_in: Option<Duration> },
    Unavailable(BackendError),
    ShuttingDown,
}

impl From<Ended> for Refusal {
    fn from(_: Ended) -> Self {
        Self::ShuttingDown
    }
}

impl Acquirer {
    /// Takes the lock, or says why not. `contention` overrides the policy's.
    ///
    /// # Cancellation
    ///
    /// Leaves nothing behind: the seat's drop has the keeper clean up.
    pub(crate) async fn acquire(
        &self,
        key: &LockKey,
        policy: &LockPolicy,
        contention: Contention,
    ) -> Result<LockGuard, LockError> {
        let started = self.keeper.clock().now();
        let result = self.checked(key, policy, contention, started).await;
        if let Err(error) = &result {
            let waited =
                if observe::COUNTS { self.keeper.clock().now().since(started) } else { Duration::ZERO };
            observe::refused(policy.name(), self.keeper.capabilities().name(), error, waited);
        }
        result
    }

    async fn checked(
        &self,
        key: &LockKey,
        policy: &LockPolicy,
        contention: Contention,
        started: Moment,
    ) -> Result<LockGuard, LockError> {
        let pid = std::process::id();
        self.check(key, policy, pid)?;
        let (name, ttl, waits) = (policy.name(), whole_ms(policy.ttl()), contention != Contention::Fail);
        let _waits = waits.then(|| Waits::begin(name));
        let owner = OwnerToken::fresh(&self.label, pid);
        let waiting = Waiting::new(contention, ttl, owner.attempt(), started);
        // None for a claim that does not wait, and for one whose wait ended in the line: it still makes its one attempt.
        let turn = if waits { self.gate.turn(key, waiting.deadline()).await } else { None };
        // After the turn, so that who stands in line keeps no more than its place.
        let claim = Claim::new(key.stored(&self.prefix), owner, ttl, waits);
        let mut seat = self.keeper.seat(claim, self.terms(policy), (name, key, self.manager));
        let answer = self.wait(&mut seat, waiting, turn).await;
        let fencing = answer.map_err(|refusal| refuse(refusal, name, key))?;
        let now = self.keeper.clock().now();
        let (waited, claim) = (now.since(started), seat.claim().clone());
        let lease = Lease::new(seat.into_place(fencing));
        lease.begins(now, ttl);
        let guard = LockGuard::new(lease, policy);
        observe::granted(name, self.keeper.capabilities().name(), key, &claim, fencing, waited);
        Ok(guard)
    }

    /// What can be refused before anything is sent.
    fn check(&self, key: &LockKey, policy: &LockPolicy, pid: u32) -> Result<(), LockError> {
        let name = policy.name();
        let capabilities = self.keeper.capabilities();
        if !self.keeper.is_of(pid) {
            return Err(LockError::ShuttingDown);
        }
        if is_polled_under(self.manager, key) {
            return Err(LockError::Reentrant { name, key: key.clone() });
        }
        if policy.requires_fencing() && !capabilities.can_fence() {
            let backend = capabilities.name();
            return Err(LockError::Unsupported { name, what: "fencing tokens", backend });
        }
        policy
            .check(capabilities.shortest_ttl(), capabilities.offset_margin())
            .map_err(|source| LockError::InvalidTtl { name, source })
    }

    /// A claim by a new owner in the process `pid`, which is this one.
    pub(crate) fn claim(&self, key: &LockKey, ttl: Duration, waits: bool, pid: u32) -> Claim {
        let owner = OwnerToken::fresh(&self.label, pid);
        Claim::new(key.stored(&self.prefix), owner, ttl, waits)
    }

    fn terms(&self, policy: &LockPolicy) -> Terms {
        let capabilities = self.keeper.capabilities();
        Terms {
            renew_for: match policy.renewal() {
                Renewal::Off => None,
                Renewal::Auto { max } => Some(max),
            },
            min_hold: policy.hold_at_least(),
            hold_on_cancel: policy.cancel_action() == OnCancel::Hold,
            offset_margin: capabilities.offset_margin(),
            queues: capabilities.is_fair(),
        }
    }

    /// Tries, and waits if the policy says so, until there is a grant or a refusal. The turn is held until then, so
    /// that this process has one contender for the key.
    async fn wait(
        &self,
        seat: &mut Seat,
        mut waiting: Waiting,
        turn: Option<Turn>,
    ) -> Result<Option<FencingToken>, Refusal> {
        let clock = self.keeper.clock();
        let turn = turn.as_ref();
        let mut step = waiting.start(clock.now());
        loop {
            let event = match step {
                Step::Try { within } => match during(turn, pin!(seat.attempt(within))).await? {
                    Told::Granted { fencing } => return Ok(fencing),
                    Told::Stale => Event::Stale,
                    Told::Held { free_in } => Event::Held { free_in },
                    Told::Unanswered(error) => Event::Unanswered(error),
                    Told::ShuttingDown => return Err(Refusal::ShuttingDown),
                },
                Step::Pause { until, listen } => match during(turn, pin!(seat.pause(until, listen))).await? {
                    Woken::Yes => Event::Paused { woken: true },
                    Woken::No => Event::Paused { woken: false },
                    Woken::ShuttingDown => return Err(Refusal::ShuttingDown),
                },
                Step::Contended { waited, free_in } => return Err(Refusal::Contended { waited, free_in }),
                Step::Unavailable(error) => return Err(Refusal::Unavailable(error)),
            };
            step = waiting.step(event, clock.now());
        }
    }
}

/// Runs `future` under the turn of a claim that has one. It is pinned by its caller, who would else keep it twice.
async fn during<T>(turn: Option<&Turn>, future: Pin<&mut impl Future<Output = T>>) -> T {
    match turn {
        Some(turn) => turn.during(future).await,
        None => future.await,
    }
}

fn refuse(refusal: Refusal, name: &'static str, key: &LockKey) -> LockError {
    let key = key.clone();
    match refusal {
        Refusal::Contended { waited, free_in } => {
            LockError::Contended { name, key, waited, retry_after: free_in }
        }
        Refusal::Unavailable(source) => LockError::Unavailable { name, key, source },
        Refusal::ShuttingDown => LockError::ShuttingDown,
    }
}
