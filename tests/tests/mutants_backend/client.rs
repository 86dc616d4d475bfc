//! What talks to the service in the test. It is right unless the service has a flaw.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockrt::conformance::{Fault, SLOWNESS};
use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, Expiry, FenceStrength, OwnerToken, Released, Renewed,
};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::flaw::{Flaw, Kind};
use super::model::Model;
use super::state::{Micros, micros};

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

#[derive(Debug)]
pub(crate) struct Client {
    model: Model,
    session: u64,
    capabilities: Capabilities,
    /// How many restarts of the service it has lived through, for flaws only.
    restarts: u64,
    /// Until when it believes to hold what, for flaws only.
    reckoned: Mutex<HashMap<OwnerToken, Micros>>,
}

/// Ways to talk about one call.
enum Talk {
    Answer,
    LostReply,
    Failed(BackendError),
}

impl Client {
    pub(crate) fn new(model: Model, session: u64) -> Self {
        let restarts = model.weather().restarts;
        let capabilities = capabilities(&model, session);
        Self { model, session, capabilities, restarts, reckoned: Mutex::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.model.has(flaw)
    }

    /// Reaches the service, or does not.
    async fn reach(&self) -> Talk {
        if self.has(Flaw::SilenceIsHeld) || self.has(Flaw::TimesOut) {
            let most = Duration::from_millis(700);
            if timeout(most, self.model.resumed()).await.is_err() {
                return Talk::Failed(BackendError::unknown("no answer in time"));
            }
        }
        self.model.resumed().await;
        let weather = self.model.weather();
        let left = self.has(Flaw::NeverReconnects) && weather.restarts > self.restarts;
        if weather.is(Fault::Down) || left {
            return Talk::Failed(BackendError::not_applied("the service is down on purpose"));
        }
        if weather.is(Fault::ReplyLost) {
            self.model.turn(Fault::ReplyLost, false);
            return Talk::LostReply;
        }
        if weather.is(Fault::Forgetful) && self.has(Flaw::ForgottenScriptFails) {
            self.model.turn(Fault::Forgetful, false);
            return Talk::Failed(BackendError::not_applied("the service knows no such script"));
        }
        Talk::Answer
    }

    async fn answered<T>(&self, answer: T) -> Result<T, BackendError> {
        if self.model.weather().is(Fault::Slow) {
            if self.has(Flaw::TimesOut) {
                return Err(BackendError::unknown("no answer in time"));
            }
            sleep(SLOWNESS).await;
        }
        Ok(answer)
    }

    fn lost_reply(&self) -> BackendError {
        if self.has(Flaw::LostReplyIsNotApplied) {
            BackendError::not_applied("cut off on purpose")
        } else {
            BackendError::unknown("cut off on purpose")
        }
    }

    fn check_ttl(&self, claim: &Claim) -> Result<(), BackendError> {
        let usable = !claim.ttl().is_zero() && claim.ttl() <= CENTURY;
        if usable || self.has(Flaw::KeepsAnyTtl) {
            return Ok(());
        }
        Err(BackendError::not_applied("no such ttl").permanent())
    }

    /// The steps before a grant, where there is more than one.
    async fn prepare(&self, claim: &Claim) -> Option<Attempt> {
        let call = self.model.call(self.session);
        let holder = self.model.state().holder(claim, call.now);
        let races = self.has(Flaw::ReadsThenWrites)
            || (self.has(Flaw::ReadsThenWritesAtTimes)
                && claim.waits()
                && claim.owner().attempt().is_multiple_of(10));
        if races {
            yield_now().await;
            return (holder != Some(false)).then(|| self.model.state().grant(call, claim));
        }
        if holder.is_none() && self.has(Flaw::ExpiryComesLater) {
            self.model.state().set_aside(claim, Some(claim), None);
            yield_now().await;
        }
        if holder.is_none() && self.has(Flaw::MarksBeforeItTakes) {
            let until = call.now.saturating_add(micros(claim.ttl()));
            self.model.state().set_aside(claim, None, Some(until));
            yield_now().await;
            self.model.state().delete(claim);
        }
        if holder == Some(false) && self.has(Flaw::WaitsForTheHolder) {
            sleep(Duration::from_secs(2)).await;
        }
        None
    }

    fn reckon(&self, claim: &Claim) {
        let until = self.model.call(self.session).client_now.saturating_add(micros(claim.ttl()));
        let mut reckoned = self.reckoned.lock().unwrap_or_else(PoisonError::into_inner);
        reckoned.insert(claim.owner().clone(), until);
    }

    /// What it thinks itself of a lease, without asking.
    fn thinks_it_holds(&self, claim: &Claim) -> bool {
        if !self.has(Flaw::RenewsByReckoning) && !self.has(Flaw::ReckonsThroughSteps) {
            return false;
        }
        let now = self.model.call(self.session).client_now;
        let reckoned = self.reckoned.lock().unwrap_or_else(PoisonError::into_inner);
        reckoned.get(claim.owner()).is_some_and(|until| now < *until)
    }

    fn renew_one(&self, claim: &Claim) -> Renewed {
        if let Err(error) = self.check_ttl(claim) {
            let deletes = claim.ttl().is_zero() && self.has(Flaw::RenewsForNoTime);
            return if deletes {
                self.model.state().renew(self.model.call(self.session), claim)
            } else {
                Renewed::Unknown(error)
            };
        }
        let call = self.model.call(self.session);
        let renewed = self.model.state().renew(call, claim);
        if matches!(renewed, Renewed::Gone) && self.thinks_it_holds(claim) {
            return Renewed::Extended;
        }
        renewed
    }

    fn renew_all(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let mut answers: Vec<_> = claims.iter().map(|claim| self.renew_one(claim)).collect();
        let is_gone = |answer: &Renewed| matches!(answer, Renewed::Gone);
        if self.has(Flaw::GoneForTheWholeBatch) && answers.iter().any(is_gone) {
            answers.fill(Renewed::Gone);
        }
        if self.has(Flaw::ShiftsLargeBatches) && answers.len() > 100 {
            answers.rotate_right(1);
        }
        if self.has(Flaw::AnswersTheFirstOnly) {
            answers.truncate(1);
        }
        answers
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.model.state().end_session(self.session);
    }
}

impl Backend for Client {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        self.check_ttl(claim)?;
        let talk = self.reach().await;
        if let Talk::Failed(error) = talk {
            return match () {
                () if self.has(Flaw::DownIsHeld) || self.has(Flaw::SilenceIsHeld) => {
                    Ok(Attempt::Held { free_in: None })
                }
                () if self.has(Flaw::DownIsGranted) => Ok(Attempt::Granted { fencing: None }),
                () => Err(error),
            };
        }
        let attempt = match self.prepare(claim).await {
            Some(attempt) => attempt,
            None => self.model.state().acquire(self.model.call(self.session), claim),
        };
        if let Attempt::Granted { .. } = attempt {
            self.reckon(claim);
        }
        if let Talk::LostReply = talk {
            return Err(self.lost_reply());
        }
        if self.has(Flaw::HeldIsAnError) && matches!(attempt, Attempt::Held { .. }) {
            return Err(BackendError::not_applied("somebody else has it"));
        }
        self.answered(attempt).await
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let all = |answer: Renewed| vec![answer; claims.len()];
        let talk = self.reach().await;
        if let Talk::Failed(error) = talk {
            return all(if self.has(Flaw::DownIsGone) { Renewed::Gone } else { Renewed::Unknown(error) });
        }
        if self.has(Flaw::RenewsByTakingAway) {
            let now = self.model.now();
            for claim in claims.iter().filter(|claim| self.model.state().holder(claim, now) == Some(true)) {
                self.model.state().delete(claim);
                yield_now().await;
                self.model.state().grant(self.model.call(self.session), claim);
            }
        }
        if self.has(Flaw::RenewalLooksFirst) && self.model.weather().is(Fault::Slow) {
            let now = self.model.now();
            let mine = |claim: &&Claim| self.model.state().holder(claim, now) == Some(true);
            let answers =
                claims.iter().map(|claim| if mine(claim) { Renewed::Extended } else { Renewed::Gone });
            let answers = answers.collect();
            sleep(SLOWNESS).await;
            return answers;
        }
        let answers = self.renew_all(claims);
        if let Talk::LostReply = talk {
            let gone = self.has(Flaw::LostReplyIsGone);
            return all(if gone { Renewed::Gone } else { Renewed::Unknown(self.lost_reply()) });
        }
        self.answered(answers).await.unwrap_or_else(|error| all(Renewed::Unknown(error)))
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        let talk = self.reach().await;
        if let Talk::Failed(error) = talk {
            return if self.has(Flaw::DownIsNotHeld) { Ok(Released::NotHeld) } else { Err(error) };
        }
        let call = self.model.call(self.session);
        let mine = self.model.state().holder(claim, call.now) == Some(true);
        if mine && self.has(Flaw::ReleasesInTwoSteps) {
            self.model.state().set_aside(claim, None, None);
            yield_now().await;
            self.model.state().set_aside(claim, Some(claim), None);
        }
        if mine && self.has(Flaw::ReleaseLooksFirst) && self.model.weather().is(Fault::Slow) {
            sleep(SLOWNESS).await;
            self.model.state().delete(claim);
            return Ok(Released::Freed);
        }
        if mine && self.has(Flaw::WakingFrees) && self.model.weather().is(Fault::NoWakeUps) {
            return Ok(Released::Freed);
        }
        let released = self.model.state().release(call, claim);
        if released == Released::Freed && !self.has(Flaw::NeverWakes) {
            self.model.tell();
        }
        if let Talk::LostReply = talk {
            return if self.has(Flaw::LostReplyIsFreed) {
                Ok(Released::Freed)
            } else {
                Err(self.lost_reply())
            };
        }
        self.answered(released).await
    }

    async fn freed(&self, claim: &Claim) {
        let deaf = self.has(Flaw::DeafAfterARestart) && self.model.weather().restarts > self.restarts;
        if !self.capabilities.wakes() || deaf {
            return pending().await;
        }
        let mut releases = self.model.listen();
        // A round trip, as any service needs before it tells.
        yield_now().await;
        if self.has(Flaw::MissesWhoComesLate) {
            releases.mark_unchanged();
        } else if self.model.state().is_free(claim, self.model.now()) {
            return;
        }
        let listening = Listening(&self.model);
        while releases.changed().await.is_ok() {
            if self.model.state().is_free(claim, self.model.now()) {
                break;
            }
        }
        std::mem::forget(listening);
    }
}

/// A wait; what its drop does is for a flaw only.
struct Listening<'a>(&'a Model);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if self.0.has(Flaw::DroppedWaitDeafensOthers) {
            self.0.turn(Fault::NoWakeUps, true);
        }
    }
}

fn capabilities(model: &Model, session: u64) -> Capabilities {
    let has = |flaw| model.has(flaw);
    let mut stated = Capabilities::new("model");
    if (model.kind() != Kind::Bare || has(Flaw::FencesInWordsOnly)) && !has(Flaw::FencesInSecret) {
        stated = stated.fences(FenceStrength::Durable);
    }
    if model.kind() != Kind::Bare || has(Flaw::CapabilitiesDiffer) {
        stated = stated.wakes_on_release();
    }
    if model.kind() == Kind::Queueing || (has(Flaw::CapabilitiesDiffer) && session.is_multiple_of(2)) {
        stated = stated.queues_fairly();
    }
    if model.kind() == Kind::PerSession {
        stated = stated.with_expiry(Expiry::PerSession);
    }
    if has(Flaw::StatesNoShortestTtl) {
        stated = stated.with_shortest_ttl(Duration::ZERO);
    }
    stated
}
