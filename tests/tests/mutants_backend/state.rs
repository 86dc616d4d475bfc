//! What the service in the test knows, and what it does to that. It is right unless it has a flaw.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use lockrt::conformance::Stored;
use lockrt::{Attempt, Claim, FencingToken, OwnerToken, Released, Renewed};

use super::flaw::{Flaw, Kind};

/// How long a waiter has to confirm what it was handed.
const OFFER: Duration = Duration::from_millis(500);

/// Microseconds of the service's wall clock.
pub(crate) type Micros = u64;

#[derive(Debug)]
pub(crate) struct State {
    kind: Kind,
    flaw: Option<Flaw>,
    locks: HashMap<String, Lock>,
    queues: HashMap<String, VecDeque<Claim>>,
    last_fence: u64,
    /// For flaws only.
    tokens: HashMap<OwnerToken, u64>,
    entries: HashSet<String>,
    fences: HashSet<String>,
    latest: Micros,
    grants: u64,
}

#[derive(Debug)]
struct Lock {
    owner: Option<OwnerToken>,
    /// None for ever.
    until: Option<Micros>,
    session: u64,
    token: u64,
    grants: u32,
    confirmed: bool,
}

/// Who calls, when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) session: u64,
    pub(crate) now: Micros,
    /// By the client's own clock.
    pub(crate) client_now: Micros,
}

impl State {
    pub(crate) fn new(kind: Kind, flaw: Option<Flaw>) -> Self {
        Self {
            kind,
            flaw,
            locks: HashMap::new(),
            queues: HashMap::new(),
            last_fence: 0,
            tokens: HashMap::new(),
            entries: HashSet::new(),
            fences: HashSet::new(),
            latest: 0,
            grants: 0,
        }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// What a crash and a new start leave.
    pub(crate) fn restart(&mut self) {
        if self.kind == Kind::Bare {
            return;
        }
        *self = Self { latest: self.latest, ..Self::new(self.kind, self.flaw) };
    }

    pub(crate) fn end_session(&mut self, session: u64) {
        if self.kind == Kind::PerSession && !self.has(Flaw::SessionsNeverEnd) {
            self.locks.retain(|_, lock| lock.session != session);
        }
    }

    pub(crate) fn stored(&mut self, now: Micros) -> Stored {
        let now = self.clock(now);
        let held = self.locks.values().filter(|lock| !lock.is_over(now));
        let (held, endless) = held.fold((0, 0), |(held, endless), lock| {
            (held + 1, endless + usize::from(lock.until.is_none() && self.kind != Kind::PerSession))
        });
        let queued: usize = self.queues.values().map(VecDeque::len).sum();
        let endless = endless + if self.has(Flaw::QueueNeverExpires) { queued } else { 0 };
        Stored {
            per_key: held + queued + self.entries.len(),
            endless: endless + self.entries.len(),
            shared: 1 + self.fences.len(),
        }
    }

    pub(crate) fn is_free(&mut self, claim: &Claim, now: Micros) -> bool {
        let (key, now) = (self.name(claim), self.clock(now));
        self.locks
            .get(&key)
            .is_none_or(|lock| lock.is_over(now) || lock.owner.as_ref() == Some(claim.owner()))
    }

    /// Who holds the key of `claim`: nobody, the claim itself, or somebody else.
    pub(crate) fn holder(&mut self, claim: &Claim, now: Micros) -> Option<bool> {
        let (key, now) = (self.name(claim), self.clock(now));
        let lock = self.locks.get(&key).filter(|lock| !lock.is_over(now))?;
        Some(lock.owner.as_ref() == Some(claim.owner()))
    }

    pub(crate) fn acquire(&mut self, call: Call, claim: &Claim) -> Attempt {
        match self.holder(claim, call.now) {
            Some(false) if !self.overwrites(claim) => self.refuse(call, claim),
            Some(true) if self.has(Flaw::RepeatIsHeld) => self.refuse(call, claim),
            _ => self.grant(call, claim),
        }
    }

    fn overwrites(&self, claim: &Claim) -> bool {
        self.has(Flaw::AcquireOverwrites)
            || (self.has(Flaw::SharesAtTimes) && claim.waits() && claim.owner().attempt().is_multiple_of(20))
    }

    fn refuse(&mut self, call: Call, claim: &Claim) -> Attempt {
        let (key, now) = (self.name(claim), self.clock(call.now));
        if self.kind == Kind::Queueing && (claim.waits() || self.has(Flaw::QueuesEverybody)) {
            let again = self.has(Flaw::AskingAgainLosesThePlace);
            let queue = self.queues.entry(key.clone()).or_default();
            if again {
                queue.retain(|queued| queued.owner() != claim.owner());
            }
            if queue.iter().all(|queued| queued.owner() != claim.owner()) {
                queue.push_back(claim.clone());
            }
        }
        if self.has(Flaw::FailedAttemptLeavesAnEntry) {
            self.entries.insert(key.clone());
        }
        let (extends, twice) = (self.has(Flaw::FailedAttemptExtends), self.has(Flaw::TellsTwiceTheTime));
        let lock = self.locks.get_mut(&key);
        let until = lock.and_then(|lock| {
            if extends {
                lock.until = Some(now + micros(claim.ttl()));
            }
            lock.until
        });
        let free_in = until.map(|until| Duration::from_micros(until - now) * if twice { 2 } else { 1 });
        Attempt::Held { free_in }
    }

    /// Makes `claim` the holder, whoever it was.
    pub(crate) fn grant(&mut self, call: Call, claim: &Claim) -> Attempt {
        let key = self.name(claim);
        let mine = self.holder(claim, call.now) == Some(true);
        let token = self.mint(&key, claim, call.now, mine);
        let until = match self.locks.get(&key) {
            Some(lock) if mine && self.has(Flaw::RepeatKeepsTheExpiry) => lock.until,
            _ => self.end(call, claim),
        };
        let grants = self.locks.get(&key).filter(|_| mine).map_or(1, |lock| lock.grants + 1);
        let owner = Some(claim.owner().clone());
        let lock = Lock { owner, until, session: call.session, token, grants, confirmed: true };
        self.locks.insert(key.clone(), lock);
        self.leave_queue(&key, claim);
        self.grants += 1;
        let says = self.kind != Kind::Bare && !self.has(Flaw::FencesInWordsOnly);
        let fencing = (says || self.has(Flaw::FencesInSecret)).then(|| FencingToken::new(token));
        Attempt::Granted { fencing }
    }

    /// Sets the key aside for a moment, as flawed backends do: for nobody, or for ever.
    pub(crate) fn set_aside(&mut self, claim: &Claim, owner: Option<&Claim>, until: Option<Micros>) {
        let key = self.name(claim);
        let owner = owner.map(|owner| owner.owner().clone());
        let lock = Lock { owner, until, session: 0, token: 0, grants: 1, confirmed: true };
        self.locks.insert(key, lock);
    }

    pub(crate) fn delete(&mut self, claim: &Claim) {
        let key = self.name(claim);
        self.locks.remove(&key);
    }

    pub(crate) fn renew(&mut self, call: Call, claim: &Claim) -> Renewed {
        let key = self.name(claim);
        let holder = self.holder(claim, call.now);
        let was_here = self.locks.contains_key(&key);
        let until = self.end(call, claim);
        match holder {
            Some(true) => {}
            Some(false) if self.has(Flaw::RenewsAnybodys) => {}
            Some(false) if self.has(Flaw::RenewsAfterExpiry) && self.tokens.contains_key(claim.owner()) => {}
            Some(false) if self.has(Flaw::RenewsInSecret) => {
                if let Some(lock) = self.locks.get_mut(&key) {
                    lock.until = until;
                }
                return Renewed::Gone;
            }
            None if self.has(Flaw::RenewalCreates) || (was_here && self.has(Flaw::RenewalRevives)) => {
                self.grant(call, claim);
            }
            _ => return Renewed::Gone,
        }
        let (moves, adds, shortens) = (
            !self.has(Flaw::RenewalMovesNothing),
            self.has(Flaw::RenewalAdds),
            !self.has(Flaw::RenewalNeverShortens),
        );
        if let Some(lock) = self.locks.get_mut(&key).filter(|_| moves) {
            lock.until = match lock.until {
                Some(was) if adds => Some(was + micros(claim.ttl())),
                Some(was) if !shortens && until.is_some_and(|until| until < was) => Some(was),
                _ => until,
            };
        }
        if claim.ttl().is_zero() {
            self.locks.remove(&key);
        }
        Renewed::Extended
    }

    pub(crate) fn release(&mut self, call: Call, claim: &Claim) -> Released {
        let key = self.name(claim);
        let queued = !self.has(Flaw::ServesWhoGaveUp) && self.leave_queue(&key, claim);
        let holder = self.holder(claim, call.now);
        if holder.is_none() || (holder == Some(false) && !self.releases_others(claim)) {
            if self.has(Flaw::ReleaseFreesTheQueuesHead) {
                self.queues.get_mut(&key).and_then(VecDeque::pop_front);
            }
            return if queued { Released::Freed } else { Released::NotHeld };
        }
        let (counts, own, confirmed) = (
            self.has(Flaw::CountsRepeats),
            self.has(Flaw::ReleasesOwnGrantsOnly),
            self.has(Flaw::HandOffOutlivesItsRelease),
        );
        let Some(lock) = self.locks.get_mut(&key) else { return Released::NotHeld };
        if own && lock.session != call.session {
            return Released::NotHeld;
        }
        lock.grants = lock.grants.saturating_sub(1);
        if self.has(Flaw::ReleasesNothing) || (counts && self.locks[&key].grants > 0) {
            return Released::Freed;
        }
        if confirmed && !self.locks[&key].confirmed {
            return Released::NotHeld;
        }
        self.locks.remove(&key);
        if self.has(Flaw::ReleaseLeavesAnEntry) {
            self.entries.insert(key.clone());
        }
        self.hand_off(&key, call);
        Released::Freed
    }

    fn releases_others(&self, claim: &Claim) -> bool {
        let had_it = self.tokens.contains_key(claim.owner());
        match self.flaw {
            Some(Flaw::ReleasesAnybodys) => true,
            Some(Flaw::ReleasesForStrangers) => !had_it,
            Some(Flaw::ReleasesAfterExpiry) => had_it,
            _ => false,
        }
    }

    /// Gives the lock to the next in the queue, which has not asked for it yet.
    fn hand_off(&mut self, key: &str, call: Call) {
        let last_first = self.has(Flaw::ServesTheLastFirst);
        let queue = self.queues.get_mut(key);
        let next = queue.and_then(|queue| if last_first { queue.pop_back() } else { queue.pop_front() });
        self.queues.retain(|_, queue| !queue.is_empty());
        let Some(next) = next else { return };
        let token = if self.has(Flaw::HandOffDoesNotMint) {
            self.last_fence
        } else {
            self.mint(key, &next, call.now, false)
        };
        let offer = micros(OFFER.min(next.ttl()));
        let until = (!self.has(Flaw::HandOffNeverEnds)).then(|| self.clock(call.now) + offer);
        let owner = Some(next.owner().clone());
        let lock = Lock { owner, until, session: 0, token, grants: 0, confirmed: false };
        self.locks.insert(key.to_owned(), lock);
    }

    fn leave_queue(&mut self, key: &str, claim: &Claim) -> bool {
        let Some(queue) = self.queues.get_mut(key) else { return false };
        let before = queue.len();
        queue.retain(|queued| queued.owner() != claim.owner());
        let left = before > queue.len();
        if queue.is_empty() {
            self.queues.remove(key);
        }
        left
    }

    fn mint(&mut self, key: &str, claim: &Claim, now: Micros, mine: bool) -> u64 {
        let held = self.locks.get(key).map(|lock| lock.token);
        let first = self.tokens.get(claim.owner()).copied();
        let token = match (self.flaw, first) {
            (Some(Flaw::FenceDiesWithTheKey), _) => held.unwrap_or_default() + 1,
            (Some(Flaw::FenceDiesWithTheData), _) => self.last_fence + 1,
            (Some(Flaw::FenceIsTheClock), _) => now + self.grants,
            (Some(Flaw::FenceStaysWithTheClaim), Some(first)) => first,
            (Some(Flaw::FenceFallsOnRepeat), Some(first)) if mine => first - 1,
            (Some(Flaw::HandOffDoesNotMint), _) if mine => held.unwrap_or_default(),
            _ => now.max(self.last_fence + 1),
        };
        if self.has(Flaw::FencePerKey) {
            self.fences.insert(key.to_owned());
        }
        self.last_fence = self.last_fence.max(token);
        if self.flaw.is_some() {
            self.tokens.entry(claim.owner().clone()).or_insert(token);
        }
        token
    }

    /// When a lease that begins now ends.
    fn end(&mut self, call: Call, claim: &Claim) -> Option<Micros> {
        if self.kind == Kind::PerSession || self.has(Flaw::NeverExpires) {
            return None;
        }
        let ttl = match self.flaw {
            Some(Flaw::RoundsDown) => Duration::from_secs(claim.ttl().as_secs()),
            Some(Flaw::RoundsUp) => claim.ttl().max(Duration::from_secs(10)),
            _ => claim.ttl(),
        };
        let from = if self.has(Flaw::ClientsClockDecides) { call.client_now } else { self.clock(call.now) };
        Some(from.saturating_add(micros(ttl)))
    }

    /// The service's clock.
    fn clock(&mut self, now: Micros) -> Micros {
        self.latest = self.latest.max(now);
        if self.has(Flaw::ClockNeverGoesBack) { self.latest } else { now }
    }

    fn name(&self, claim: &Claim) -> String {
        let name = claim.key().as_str();
        let cut = |most: usize| name.chars().take(most).collect();
        match self.flaw {
            Some(Flaw::FoldsCase) => name.to_lowercase(),
            Some(Flaw::CutsAt32) => cut(32),
            Some(Flaw::CutsAt255) => cut(255),
            Some(Flaw::DropsColons) => name.replace(':', ""),
            Some(Flaw::TrimsBlanks) => name.trim().to_owned(),
            _ => name.to_owned(),
        }
    }
}

impl Lock {
    fn is_over(&self, now: Micros) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

pub(crate) fn micros(span: Duration) -> Micros {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
