//! A lock service that misbehaves as it is told.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, Clock, LockManager, Memory, OwnerToken, Released,
    Renewed, testing,
};
use tokio::time::sleep;

use crate::Setup;

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Carried out and answered.
    Answered,
    /// Not carried out, and answered with "no": held, gone, not held.
    Denied,
    /// Carried out at once, answered this much later.
    AnsweredAfter(Duration),
    /// Not carried out, never answered.
    Silent,
    /// Carried out, never answered.
    AppliedInSilence,
    /// Fails, and was not carried out.
    NotApplied,
    /// Fails with an unknown outcome, and was carried out.
    Applied,
    /// Fails with an unknown outcome, and was not carried out.
    Unknown,
    /// Panics.
    Panics,
}

/// Which call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// An attempt.
    Acquire,
    /// A renewal of one or more claims.
    Renew,
    /// A release.
    Release,
}

type Plan = Box<dyn FnMut(Call, usize) -> Fate + Send>;

/// Memory on tokio's clock behind a plan of faults. Clones are the same service.
#[derive(Clone)]
pub struct Faulty(Arc<Inner>);

struct Inner {
    memory: Memory,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    calls: Vec<Call>,
    owners: HashSet<OwnerToken>,
}

impl Faulty {
    /// A service whose every call meets the fate that `plan` says; the number counts calls of its
    /// kind from one.
    pub fn start(plan: impl FnMut(Call, usize) -> Fate + Send + 'static) -> Self {
        let state = State { plan: Box::new(plan), calls: Vec::new(), owners: HashSet::new() };
        Self(Arc::new(Inner { memory: Memory::on(Clock::tokio()), state: Mutex::new(state) }))
    }

    /// Another plan from now on.
    pub fn follow(&self, plan: impl FnMut(Call, usize) -> Fate + Send + 'static) {
        self.state().plan = Box::new(plan);
    }

    /// How often it has been called so.
    #[must_use]
    pub fn calls(&self, call: Call) -> usize {
        self.state().calls.iter().filter(|made| **made == call).count()
    }

    /// How many different claims have made attempts.
    #[must_use]
    pub fn contenders(&self) -> usize {
        self.state().owners.len()
    }

    /// The same locks without faults, as another process would use them.
    #[must_use]
    pub fn honest(&self) -> LockManager {
        testing::manager(self.0.memory.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, call: Call) -> Fate {
        let mut state = self.state();
        state.calls.push(call);
        let number = state.calls.iter().filter(|made| **made == call).count();
        (state.plan)(call, number)
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("calls", &self.state().calls).finish_non_exhaustive()
    }
}

impl Setup for Faulty {
    const SLACK: Duration = Duration::from_millis(50);

    fn manager(&self) -> LockManager {
        testing::manager(self.clone())
    }

    async fn held(&self) -> usize {
        self.0.memory.held()
    }
}

/// Lets `call` meet its fate.
async fn meet<T>(fate: Fate, call: impl Future<Output = T>, no: T) -> Result<T, BackendError> {
    match fate {
        Fate::Answered => Ok(call.await),
        Fate::Denied => Ok(no),
        Fate::AnsweredAfter(late) => {
            let answer = call.await;
            sleep(late).await;
            Ok(answer)
        }
        Fate::Silent => pending().await,
        Fate::AppliedInSilence => {
            call.await;
            pending().await
        }
        Fate::NotApplied => Err(BackendError::not_applied("refused on purpose")),
        Fate::Applied => {
            call.await;
            Err(BackendError::unknown("cut off on purpose, after"))
        }
        Fate::Unknown => Err(BackendError::unknown("cut off on purpose, before")),
        Fate::Panics => panic!("a backend that panics on purpose"),
    }
}

impl Backend for Faulty {
    fn capabilities(&self) -> &Capabilities {
        self.0.memory.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let fate = self.next(Call::Acquire);
        self.state().owners.insert(claim.owner().clone());
        meet(fate, self.0.memory.try_acquire(claim), Ok(Attempt::Held { free_in: None })).await?
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let fate = self.next(Call::Renew);
        let gone = vec![Renewed::Gone; claims.len()];
        match meet(fate, self.0.memory.renew(claims), gone).await {
            Ok(answers) => answers,
            Err(error) => vec![Renewed::Unknown(error); claims.len()],
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        let fate = self.next(Call::Release);
        meet(fate, self.0.memory.release(claim), Ok(Released::NotHeld)).await?
    }

    fn freed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        self.0.memory.freed(claim)
    }
}
