//! What the keeper does with one claim, from its first attempt until nothing of it can be left.

mod action;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Attempt, Claim, Released, Renewed};
use crate::clock::Moment;
use crate::error::{BackendError, LossReason, Outcome};
use crate::mutant::{self, Flaw};
use crate::policy::margin;
use crate::protocol::freeing::{Freeing, Left, Owed};
use crate::protocol::lease::{End, Standing};
use crate::token::FencingToken;

pub(crate) use action::{Action, Remains, Told};
#[cfg(test)]
pub(crate) use terms::Bare;
use terms::Rules;
pub(crate) use terms::{Record, Terms};

/// How long a caller waits for its release before the keeper goes on alone.
const AWAITED: Duration = Duration::from_millis(250);

/// A lease may be renewed so much of its ttl before its time, in a call that is made for others.
const EARLY: u32 = 30;

/// One claim within its keeper.
pub(crate) type Id = u64;

/// How a caller parts from its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It never got the lock, or vanished before it could use it.
    Unused,
    /// Its body came to its end.
    Ended,
    /// Its body was dropped, timed out or panicked.
    Dropped,
}

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) claim: Claim,
    pub(super) record: Arc<dyn Record>,
    rules: Rules,
    owed: Owed,
    /// When the newest attempt or renewal left.
    latest: Moment,
    phase: Phase,
    /// Its place in the order of what is due.
    pub(super) due: Option<Moment>,
}

#[derive(Debug)]
enum Phase {
    /// The caller tries to get it.
    Trying,
    /// The caller has it.
    Held(Hold),
    /// The caller is done; `min_hold` is not, or the key is kept since an effect may be in flight.
    Resting { hold: Hold, until: Moment },
    /// It is being given back.
    Freeing { freeing: Freeing, tell_by: Option<Moment> },
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    granted: Moment,
    /// When the newest grant or renewal was answered: it ends on the service one ttl later at most.
    answered: Moment,
    renewing: bool,
    next_renewal: Option<Moment>,
}

/// Whether a claim goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    Over,
}

impl Kept {
    pub(super) fn new(claim: Claim, terms: Terms, record: Arc<dyn Record>, now: Moment) -> Self {
        let (rules, owed) = (Rules::from(terms), Owed::default());
        Self { claim, record, rules, owed, latest: now, phase: Phase::Trying, due: None }
    }

    /// An attempt is about to leave.
    pub(super) fn trying(&mut self, now: Moment) {
        self.owed.in_flight = true;
        self.latest = now;
    }

    pub(super) fn is_trying(&self) -> bool {
        matches!(self.phase, Phase::Trying)
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held(_))
    }

    pub(super) fn is_freeing(&self) -> bool {
        matches!(self.phase, Phase::Freeing { .. })
    }

    pub(super) fn has_lease(&self) -> bool {
        self.is_held() && self.record.word().deadline().is_some()
    }

    /// Whether the key is kept when the caller goes away.
    pub(super) fn holds_on_cancel(&self) -> bool {
        self.rules.hold_on_cancel
    }

    pub(super) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting { .. })
    }

    /// When a grant or renewal that left at `sent`, and is answered `now`, ends for its owner.
    fn deadline(&self, sent: Moment, now: Moment) -> Moment {
        let sent = if mutant::has(Flaw::DeadlineFromReply) { now } else { sent };
        let ttl = self.claim.ttl();
        (sent + ttl).minus(margin(ttl, self.rules.offset_margin()))
    }

    pub(super) fn next_due(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Trying => None,
            Phase::Held(hold) => {
                // None once the lease has ended: what is left to do begins with its release.
                let deadline = self.record.word().deadline();
                let cap = self.rules.renew_for().map(|most| hold.granted + most);
                deadline
                    .map(|at| [Some(at), cap, hold.next_renewal].into_iter().flatten().min().unwrap_or(at))
            }
            Phase::Resting { until, hold } => Some(hold.next_renewal.unwrap_or(*until)),
            Phase::Freeing { freeing, tell_by } => freeing.due().into_iter().chain(*tell_by).min(),
        }
    }

    pub(super) fn tried(
        &mut self,
        id: Id,
        sent: Moment,
        result: Result<Attempt, BackendError>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Goes {
        self.owed.in_flight = false;
        let told = match result {
            Ok(Attempt::Granted { fencing }) => {
                self.owed.held = true;
                self.granted(sent, fencing, now)
            }
            Ok(Attempt::Held { .. }) if mutant::has(Flaw::RunsOnContention) => self.granted(sent, None, now),
            Err(_) if mutant::has(Flaw::UnknownIsContended) => Told::Held { free_in: None },
            Err(_) if mutant::has(Flaw::UnknownIsGranted) => self.granted(sent, None, now),
            Ok(Attempt::Held { free_in }) => {
                self.owed.held |= self.rules.queues && self.claim.waits();
                Told::Held { free_in }
            }
            Err(error) => {
                if error.outcome() == Outcome::Unknown {
                    self.owed.unanswered += 1;
                }
                Told::Unanswered(error)
            }
        };
        let Phase::Freeing { freeing, .. } = &mut self.phase else {
            actions.push(Action::Tell(id, told));
            return Goes::On;
        };
        if self.owed.held {
            freeing.granted_late(now);
        } else if self.owed.is_settled() && freeing.due().is_some() {
            return Goes::Over;
        }
        self.tick(id, now, &mut Vec::new(), actions)
    }

    /// A grant was answered: what the caller gets of it.
    fn granted(&mut self, sent: Moment, fencing: Option<FencingToken>, now: Moment) -> Told {
        let Phase::Trying = self.phase else { return Told::Stale };
        let deadline = self.deadline(sent, now);
        let ttl = self.claim.ttl();
        if deadline.since(now) < ttl / 2 {
            return Told::Stale;
        }
        self.record.word().begin(deadline);
        self.phase = Phase::Held(Hold {
            granted: now,
            answered: now,
            renewing: false,
            next_renewal: self.rules.renew_for().map(|_| sent + ttl / 3),
        });
        Told::Granted { fencing }
    }

    pub(super) fn renewed(
        &mut self,
        id: Id,
        sent: Moment,
        answer: Option<&Renewed>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Goes {
        let deadline = self.deadline(sent, now);
        let ttl = self.claim.ttl();
        match &mut self.phase {
            Phase::Held(hold) => {
                hold.renewing = false;
                match answer {
                    Some(Renewed::Extended) => {
                        hold.answered = now;
                        let standing = look(&*self.record, id, now, actions);
                        if matches!(standing, Standing::Held(_)) || mutant::has(Flaw::LateExtendedRevives) {
                            self.record.word().extend(now, deadline);
                            hold.next_renewal = Some(sent + ttl / 3);
                        }
                    }
                    Some(Renewed::Gone) => {
                        // Whatever ended the lease before, the grant is no more.
                        self.owed.held = false;
                        self.lose(id, LossReason::Gone, now, actions);
                    }
                    Some(Renewed::Unknown(_)) if mutant::has(Flaw::RenewalErrorEndsRenewal) => {}
                    Some(Renewed::Unknown(_)) if mutant::has(Flaw::FailedRenewalReleases) => {
                        self.lose(id, LossReason::Gone, now, actions);
                        return self.free(id, now, None, actions);
                    }
                    Some(Renewed::Unknown(_)) | None => hold.next_renewal = Some(now + ttl / 12),
                }
                Goes::On
            }
            Phase::Resting { hold, .. } => {
                hold.renewing = false;
                match answer {
                    Some(Renewed::Gone) => self.owed.held = false,
                    _ => return Goes::On,
                }
                if self.owed.is_settled() { Goes::Over } else { Goes::On }
            }
            Phase::Trying | Phase::Freeing { .. } => Goes::On,
        }
    }

    /// Ends the lease, unless it has ended.
    pub(super) fn lose(&mut self, id: Id, reason: LossReason, now: Moment, actions: &mut Vec<Action>) {
        let Phase::Held(_) = self.phase else { return };
        let standing = look(&*self.record, id, now, actions);
        if matches!(standing, Standing::Held(_)) && self.record.word().end(now, End::Lost(reason)) {
            actions.push(Action::Lost(id, reason));
        }
    }

    pub(super) fn release(
        &mut self,
        id: Id,
        parting: Parting,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Goes {
        match &self.phase {
            Phase::Trying => self.free(id, now, None, actions),
            Phase::Held(_) if parting == Parting::Unused || !self.record.word().is_taken() => {
                self.free(id, now, None, actions)
            }
            Phase::Held(hold) if parting == Parting::Dropped && self.rules.hold_on_cancel => {
                if !self.owed.is_in_doubt() {
                    return Goes::Over;
                }
                // An attempt that is still to come may keep the key past its ttl, or take it anew.
                let until = hold.answered + self.claim.ttl();
                let hold = Hold { next_renewal: None, ..*hold };
                self.phase = Phase::Resting { hold, until };
                actions.push(Action::TellReleased(id, Released::Deferred));
                Goes::On
            }
            Phase::Held(hold) => {
                let until = hold.granted + self.rules.min_hold();
                if now < until && self.owed.held {
                    let hold = self.rest(*hold, until, now);
                    self.phase = Phase::Resting { hold, until };
                    actions.push(Action::TellReleased(id, Released::Deferred));
                    return Goes::On;
                }
                self.free(id, now, Some(now + AWAITED), actions)
            }
            Phase::Resting { .. } | Phase::Freeing { .. } => {
                // A shutdown was first; the caller need not wait for it.
                actions.push(Action::TellReleased(id, Released::Deferred));
                Goes::On
            }
        }
    }

    /// Prepares a hold for its rest until `min_hold` has passed: one renewal if the key would not
    /// live so long.
    fn rest(&self, mut hold: Hold, until: Moment, now: Moment) -> Hold {
        let expiry = self.record.word().last_deadline();
        hold.next_renewal = (expiry < until && !hold.renewing).then_some(now);
        hold
    }

    fn free(&mut self, id: Id, now: Moment, tell_by: Option<Moment>, actions: &mut Vec<Action>) -> Goes {
        if self.owed.is_settled() {
            actions.push(Action::TellReleased(id, Released::NotHeld));
            return Goes::Over;
        }
        let mut freeing = Freeing::new(now, self.latest, self.claim.ttl());
        if self.is_held() {
            freeing = freeing.of_lease(self.record.word().last_deadline());
        }
        self.phase = Phase::Freeing { freeing, tell_by };
        self.tick(id, now, &mut Vec::new(), actions)
    }

    pub(super) fn freed(
        &mut self,
        id: Id,
        answer: Option<Released>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Goes {
        let Phase::Freeing { freeing, tell_by } = &mut self.phase else { return Goes::On };
        let answered = answer.filter(|released| *released != Released::Deferred);
        let told = answered.map(|released| freeing.outcome(released, self.owed, now));
        let left = match answered {
            Some(released) => freeing.answered(&mut self.owed, released == Released::Freed, now),
            None => freeing.unanswered(now),
        };
        if let Some(released) = told.or((left == Left::Expired).then_some(Released::NotHeld))
            && tell_by.take().is_some()
        {
            actions.push(Action::TellReleased(id, released));
        }
        match left {
            Left::Again(_) => return Goes::On,
            Left::Expired if answered.is_none() => actions.push(Action::Abandoned(id)),
            Left::Expired | Left::Nothing => {}
        }
        Goes::Over
    }

    /// Whether it is renewed now, a little before its time, since a call for others has room. It then counts as on
    /// its way.
    pub(super) fn renews_early(&mut self, now: Moment) -> bool {
        let Phase::Held(hold) = &mut self.phase else { return false };
        let soon = now + self.claim.ttl() / EARLY;
        let word = self.record.word();
        let lives = word.is_taken() && word.deadline().is_some_and(|deadline| now < deadline);
        let capped = self.rules.renew_for().is_some_and(|most| soon >= hold.granted + most);
        let renews = lives && !capped && hold.renew(soon);
        if renews {
            self.latest = now;
        }
        renews
    }

    pub(super) fn tick(
        &mut self,
        id: Id,
        now: Moment,
        renewals: &mut Vec<Id>,
        actions: &mut Vec<Action>,
    ) -> Goes {
        match &mut self.phase {
            Phase::Trying => {}
            Phase::Held(hold) => {
                let capped = self.rules.renew_for().is_some_and(|most| now >= hold.granted + most);
                if let Standing::Held(_) = look(&*self.record, id, now, actions) {
                    if capped {
                        self.lose(id, LossReason::RenewalCap, now, actions);
                    } else if !self.record.word().is_taken() && now >= hold.granted + self.claim.ttl() {
                        // The caller has not come for its grant in all this time. It may never be polled again, and is
                        // not renewed until it comes.
                        hold.next_renewal = Some(now + self.claim.ttl() / 12);
                    } else if hold.renew(now) {
                        self.latest = now;
                        renewals.push(id);
                    }
                }
            }
            Phase::Resting { hold, until } => {
                if now >= *until {
                    return self.free(id, now, None, actions);
                }
                if hold.renew(now) {
                    self.latest = now;
                    renewals.push(id);
                }
            }
            Phase::Freeing { freeing, tell_by } => {
                if tell_by.is_some_and(|by| now >= by) {
                    *tell_by = None;
                    actions.push(Action::TellReleased(id, Released::Deferred));
                }
                if freeing.send(now) {
                    actions.push(Action::Free(id));
                }
            }
        }
        Goes::On
    }
}

/// How the lease stands. If its deadline has passed unseen, that is told now: nothing is due
/// for a lease that has ended, so there is no later occasion.
fn look(record: &dyn Record, id: Id, now: Moment, actions: &mut Vec<Action>) -> Standing {
    let (standing, just_expired) = record.word().at(now);
    if just_expired {
        actions.push(Action::Lost(id, LossReason::Expired));
    }
    standing
}

impl Hold {
    /// Whether a renewal is to be sent now; it then counts as on its way.
    fn renew(&mut self, now: Moment) -> bool {
        let due = !self.renewing && self.next_renewal.is_some_and(|at| now >= at);
        if due {
            self.renewing = true;
            self.next_renewal = None;
        }
        due
    }
}
