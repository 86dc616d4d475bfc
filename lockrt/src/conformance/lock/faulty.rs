//! A lock service that misbehaves as it is told.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::backend::contract::Backend;
use crate::backend::memory::Memory;
use crate::claim::{Attempt, Capabilities, Claim, Released, Renewed};
use crate::clock::Clock;
use crate::error::BackendError;
use crate::manager::LockManager;
use crate::testing;
use crate::token::OwnerToken;

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Fails with an unknown outcome, and an attempt is carried out this much later, as one that a slow
    /// network delivers after its client has given up. Other calls are lost.
    AppliedLate(Duration),
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

/// A client of a lock service behind a plan of faults. Clones are the same client.
///
/// ```
/// use lockrt::conformance::lock::{Call, Fate, Faulty};
///
/// // Every second renewal goes unanswered.
/// let service = Faulty::start(|call, number| match call {
///     Call::Renew if number % 2 == 0 => Fate::Silent,
///     _ => Fate::Answered,
/// });
/// assert_eq!(service.calls(Call::Renew), 0);
/// ```
pub struct Faulty<B = Memory>(Arc<Inner<B>>);

struct Inner<B> {
    client: B,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    calls: Vec<Call>,
    owners: HashSet<OwnerToken>,
    arrived_late: usize,
}

impl State {
    fn new(plan: Plan) -> Self {
        Self { plan, calls: Vec::new(), owners: HashSet::new(), arrived_late: 0 }
    }
}

impl Faulty {
    /// Memory on tokio's clock whose every call meets the fate that `plan` says; the number counts
    /// calls of its kind from one.
    pub fn start(plan: impl FnMut(Call, usize) -> Fate + Send + 'static) -> Self {
        Self::on(Memory::on(Clock::tokio()), plan)
    }

    /// The same locks without faults, as another process would use them.
    ///
    /// # Panics
    ///
    /// If the system gives no thread or no random numbers.
    #[must_use]
    pub fn honest(&self) -> LockManager {
        testing::manager(self.client().clone())
    }
}

impl<B: Backend> Faulty<B> {
    /// The same on any client.
    pub fn on(client: B, plan: impl FnMut(Call, usize) -> Fate + Send + 'static) -> Self {
        Self(Arc::new(Inner { client, state: Mutex::new(State::new(Box::new(plan))) }))
    }

    /// The client without faults.
    #[must_use]
    pub fn client(&self) -> &B {
        &self.0.client
    }

    /// Another plan from now on, as if there had been no call before.
    pub(super) fn start_over(&self, plan: impl FnMut(Call, usize) -> Fate + Send + 'static) {
        *self.state() = State::new(Box::new(plan));
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

    /// How many attempts were carried out [late](Fate::AppliedLate) by now.
    #[must_use]
    pub fn arrived_late(&self) -> usize {
        self.state().arrived_late
    }

    fn arrives(&self, claim: Claim, late: Duration) {
        let service = self.clone();
        tokio::spawn(async move {
            sleep(late).await;
            drop(service.client().try_acquire(&claim).await);
            service.state().arrived_late += 1;
        });
    }

    fn next(&self, call: Call) -> Fate {
        let mut state = self.state();
        state.calls.push(call);
        let number = state.calls.iter().filter(|made| **made == call).count();
        (state.plan)(call, number)
    }
}

impl<B> Faulty<B> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> Clone for Faulty<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for Faulty<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("calls", &self.state().calls).finish_non_exhaustive()
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
        Fate::Unknown | Fate::AppliedLate(_) => Err(BackendError::unknown("cut off on purpose, before")),
        // Without a word: printing a panic takes longer than some leases last.
        Fate::Panics => resume_unwind(Box::new("a backend that panics on purpose")),
    }
}

impl<B: Backend> Backend for Faulty<B> {
    fn capabilities(&self) -> &Capabilities {
        self.client().capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let fate = self.next(Call::Acquire);
        self.state().owners.insert(claim.owner().clone());
        if let Fate::AppliedLate(late) = fate {
            self.arrives(claim.clone(), late);
        }
        meet(fate, self.client().try_acquire(claim), Ok(Attempt::Held { free_in: None })).await?
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let fate = self.next(Call::Renew);
        let gone = vec![Renewed::Gone; claims.len()];
        match meet(fate, self.client().renew(claims), gone).await {
            Ok(answers) => answers,
            Err(error) => vec![Renewed::Unknown(error); claims.len()],
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        let fate = self.next(Call::Release);
        meet(fate, self.client().release(claim), Ok(Released::NotHeld)).await?
    }

    fn freed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        self.client().freed(claim)
    }
}
