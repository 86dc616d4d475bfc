//! A lock service in memory that fails when it is told to.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::task::yield_now;

use crate::backend::contract::Backend;
use crate::backend::memory::Memory;
use crate::claim::{Attempt, Capabilities, Claim, Released, Renewed};
use crate::clock::Clock;
use crate::error::BackendError;
use crate::key::LockKey;

/// Clones are the same service.
#[derive(Clone, Debug)]
pub(super) struct Fragile {
    memory: Memory,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    silent: bool,
    slow: bool,
    /// Who was granted what through the contract, as the manager under test does.
    grants: HashMap<LockKey, Claim>,
    granted: u64,
}

impl Fragile {
    pub(super) fn new() -> Self {
        Self { memory: Memory::on(Clock::tokio()), state: Arc::default() }
    }

    pub(super) fn answer(&self, answers: bool) {
        self.state().silent = !answers;
    }

    /// Whether callers have to wait for its answers, as they have to for those of a server.
    pub(super) fn slow(&self, slow: bool) {
        self.state().slow = slow;
    }

    pub(super) fn held(&self) -> usize {
        self.memory.held()
    }

    /// How many grants the manager under test has been given.
    pub(super) fn granted(&self) -> u64 {
        self.state().granted
    }

    /// Gives `claim` its lock, past any silence; whether it was free.
    pub(super) fn grant(&self, claim: &Claim) -> bool {
        matches!(at_once(self.memory.try_acquire(claim)), Ok(Attempt::Granted { .. }))
    }

    /// Takes the lock from `claim` again, past any silence.
    pub(super) fn free(&self, claim: &Claim) -> bool {
        matches!(at_once(self.memory.release(claim)), Ok(Released::Freed))
    }

    /// Forgets the grant of `key`, as a server does that fails over; whether there was one.
    pub(super) fn forget(&self, key: &LockKey) -> bool {
        let grant = self.state().grants.remove(key);
        grant.is_some_and(|claim| self.free(&claim))
    }

    /// Forgets every grant; whether there was one.
    pub(super) fn forget_all(&self) -> bool {
        let grants = std::mem::take(&mut self.state().grants);
        grants.values().filter(|claim| self.free(claim)).count() > 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way of a request or of an answer: without end while the service is silent.
    async fn way(&self) {
        let (silent, slow) = {
            let state = self.state();
            (state.silent, state.slow)
        };
        if silent {
            pending::<()>().await;
        }
        if slow {
            yield_now().await;
        }
    }
}

/// The answer of a service that never waits.
fn at_once<T>(call: impl Future<Output = Result<T, BackendError>>) -> Result<T, BackendError> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(BackendError::unknown("memory has to wait for something")),
    }
}

impl Backend for Fragile {
    fn capabilities(&self) -> &Capabilities {
        self.memory.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        self.way().await;
        let attempt = self.memory.try_acquire(claim).await?;
        if let Attempt::Granted { .. } = attempt {
            let mut state = self.state();
            state.grants.insert(claim.key().clone(), claim.clone());
            state.granted += 1;
        }
        self.way().await;
        Ok(attempt)
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        self.way().await;
        let answers = self.memory.renew(claims).await;
        self.way().await;
        answers
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        self.way().await;
        let released = self.memory.release(claim).await;
        self.way().await;
        released
    }

    fn freed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        self.memory.freed(claim)
    }
}
