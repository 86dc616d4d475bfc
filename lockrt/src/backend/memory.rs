//! Locks in this process's memory: for tests, first runs, and as the pattern for other backends.

mod queue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::backend::contract::Backend;
use crate::backend::hint::Hint;
use crate::claim::{Attempt, Capabilities, Claim, FenceStrength, Released, Renewed};
use crate::clock::{Clock, Moment};
use crate::error::BackendError;
use crate::key::LockKey;
use crate::token::{FencingToken, OwnerToken};
use queue::Queue;

const CAPABILITIES: Capabilities =
    Capabilities::new("memory").fences(FenceStrength::Durable).wakes_on_release().queues_fairly();

/// A hundred years, as on Redis.
const LONGEST_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// A lock service inside this process. It locks nothing outside it.
///
/// Clones share their locks, so several managers on clones of one `Memory` behave like several
/// processes on one server.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    held: HashMap<LockKey, Held>,
    /// One for all keys, as on Redis: a counter per key would stay for ever.
    last_fence: u64,
    queues: HashMap<LockKey, Queue>,
}

#[derive(Debug)]
struct Held {
    owner: OwnerToken,
    until: Moment,
}

impl Memory {
    /// An empty lock service on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Clock::system())
    }

    /// An empty lock service on `clock`.
    #[must_use]
    pub fn on(clock: Clock) -> Self {
        Self(Arc::new(Shared { clock, locks: Mutex::default() }))
    }

    /// How many locks are held at present.
    #[must_use]
    pub fn held(&self) -> usize {
        let now = self.0.clock.now();
        self.locks().held.values().filter(|held| now < held.until).count()
    }

    /// How many claims wait in queues at present.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let now = self.0.clock.now();
        self.locks().queues.values().filter(|queue| queue.is_of_use(now)).map(Queue::len).sum()
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        // Every change below is a single step, so a panic elsewhere leaves nothing half done.
        self.0.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Locks {
    /// The live holder of `key`.
    fn holder(&mut self, key: &LockKey, now: Moment) -> Option<&mut Held> {
        self.held.get_mut(key).filter(|held| now < held.until)
    }

    /// Tokens rise past the wall clock, so that a restarted process goes on above its last ones.
    fn mint(&mut self) -> FencingToken {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(since.as_micros()).unwrap_or_default();
        self.last_fence = wall.max(self.last_fence + 1);
        FencingToken::new(self.last_fence)
    }

    /// Writes an owner, who gets a token.
    fn grant(&mut self, key: &LockKey, owner: &OwnerToken, now: Moment, lasts: Duration) -> FencingToken {
        // Forgets expired locks once they outnumber the live ones, so that memory stays bounded.
        if self.held.len() == self.held.capacity() {
            self.held.retain(|_, held| now < held.until);
            self.queues.retain(|_, queue| queue.is_of_use(now));
        }
        self.held.insert(key.clone(), Held { owner: owner.clone(), until: now + lasts });
        self.mint()
    }

    /// Frees a held lock: offers it to the first who waits, or deletes it. Gives those who are to be told.
    fn hand_on(&mut self, key: &LockKey, now: Moment) -> Told {
        let first = self.queues.get_mut(key).filter(|queue| queue.is_of_use(now)).and_then(Queue::pop);
        let Some((first, next)) = first else {
            self.held.remove(key);
            return Told::default();
        };
        if next.is_none() {
            self.queues.remove(key);
        }
        self.grant(key, &first.owner, now, first.offer);
        // Whoever was offered it may be gone; the next one then looks when the offer ends.
        Told { offered: Some(first.hint), next, look_at: now + first.offer }
    }

    /// Gives the place of `claim` in its queue up; whether it had one.
    fn leave_queue(&mut self, claim: &Claim) -> bool {
        let Some(queue) = self.queues.get_mut(claim.key()) else { return false };
        let left = queue.leave(claim);
        if queue.len() == 0 {
            self.queues.remove(claim.key());
        }
        left
    }
}

/// Who is to be told of an offer. That wakes them, and whoever is woken runs code of others, which may
/// come back here: the locks are unlocked by then.
#[derive(Default)]
struct Told {
    offered: Option<Arc<Hint>>,
    next: Option<Arc<Hint>>,
    look_at: Moment,
}

impl Told {
    fn tell(self) {
        if let Some(offered) = self.offered {
            offered.call();
        }
        if let Some(next) = self.next {
            next.look_at(self.look_at);
        }
    }
}

/// A lock of no time would be free at once, one of all times never.
fn check_ttl(claim: &Claim) -> Result<(), BackendError> {
    if claim.ttl().is_zero() || claim.ttl() > LONGEST_TTL {
        return Err(
            BackendError::not_applied("a ttl must be at least 1 ms and at most 100 years").permanent()
        );
    }
    Ok(())
}

impl Backend for Memory {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        check_ttl(claim)?;
        let now = self.0.clock.now();
        let mut locks = self.locks();
        if let Some(held) = locks.holder(claim.key(), now)
            && held.owner != *claim.owner()
        {
            let until = held.until;
            if claim.waits() {
                locks.queues.entry(claim.key().clone()).or_default().line_up(claim, until, now);
            }
            return Ok(Attempt::Held { free_in: Some(until.since(now)) });
        }
        locks.leave_queue(claim);
        let fencing = locks.grant(claim.key(), claim.owner(), now, claim.ttl());
        Ok(Attempt::Granted { fencing: Some(fencing) })
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let now = self.0.clock.now();
        let mut locks = self.locks();
        let mut renew = |claim: &Claim| match (check_ttl(claim), locks.holder(claim.key(), now)) {
            (Err(error), _) => Renewed::Unknown(error),
            (Ok(()), Some(held)) if held.owner == *claim.owner() => {
                held.until = now + claim.ttl();
                Renewed::Extended
            }
            _ => Renewed::Gone,
        };
        claims.iter().map(|claim| renew(claim)).collect()
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        let now = self.0.clock.now();
        let mut locks = self.locks();
        let holds = locks.holder(claim.key(), now).is_some_and(|held| held.owner == *claim.owner());
        let left = locks.leave_queue(claim);
        let told = if holds { locks.hand_on(claim.key(), now) } else { Told::default() };
        drop(locks);
        told.tell();
        Ok(if holds || left { Released::Freed } else { Released::NotHeld })
    }

    async fn freed(&self, claim: &Claim) {
        let hint = self.locks().queues.get(claim.key()).and_then(|queue| queue.hint_of(claim));
        // Without a place it was offered the lock, or has not asked for it: in both cases it should.
        if let Some(hint) = hint {
            hint.heard(self.0.clock).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::token::{OwnerLabel, ProcessRandom};

    const MS: Duration = Duration::from_millis(1);

    fn claim(ttl: Duration) -> Claim {
        let owner = OwnerToken::fresh(&OwnerLabel::new("test", ProcessRandom::get().unwrap()), 1);
        Claim::new(LockKey::new("k").unwrap(), owner, ttl, true)
    }

    async fn granted(memory: &Memory, claim: &Claim) -> bool {
        matches!(memory.try_acquire(claim).await, Ok(Attempt::Granted { .. }))
    }

    /// A held lock and two who wait for it.
    async fn queue(ttl: Duration) -> (Memory, [Claim; 3]) {
        let (memory, claims) = (Memory::on(Clock::tokio()), [claim(MS * 60_000), claim(ttl), claim(ttl)]);
        assert!(granted(&memory, &claims[0]).await);
        assert!(!granted(&memory, &claims[1]).await && !granted(&memory, &claims[2]).await);
        assert_eq!(memory.waiting(), 2);
        (memory, claims)
    }

    #[tokio::test]
    async fn tokens_of_a_new_process_go_on_above_those_of_the_last_one() {
        let token = async |memory: Memory| match memory.try_acquire(&claim(MS * 60_000)).await.unwrap() {
            Attempt::Granted { fencing } => fencing.unwrap().get(),
            other => panic!("{other:?}"),
        };
        let last = token(Memory::new()).await;
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        while now() <= u128::from(last) {}
        assert!(token(Memory::new()).await > last);
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_offers_the_lock_to_the_first_who_waits() {
        let (memory, [holder, first, second]) = queue(MS * 60_000).await;
        memory.release(&holder).await.unwrap();
        memory.freed(&first).await;
        assert!(!granted(&memory, &holder).await && !granted(&memory, &second).await);
        sleep(MS * 199).await;
        assert!(granted(&memory, &first).await);
        sleep(MS * 1_000).await;
        assert!(!granted(&memory, &second).await, "the offer was taken, for its whole ttl");
    }

    #[tokio::test(start_paused = true)]
    async fn an_offer_that_nobody_takes_ends_and_the_next_one_looks_then() {
        for (ttl, offer_ms) in [(MS * 60_000, 200), (MS * 30, 30)] {
            let (memory, [holder, _, second]) = queue(ttl).await;
            memory.release(&holder).await.unwrap();
            assert!(timeout(MS * (offer_ms - 1), memory.freed(&second)).await.is_err());
            assert!(timeout(MS * 2, memory.freed(&second)).await.is_ok());
            assert!(granted(&memory, &second).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_no_place_and_hands_an_offer_on() {
        let (memory, [holder, first, second]) = queue(MS * 60_000).await;
        memory.release(&holder).await.unwrap();
        assert_eq!(memory.release(&first).await.unwrap(), Released::Freed);
        memory.freed(&second).await;
        assert!(granted(&memory, &second).await);
        let third = claim(MS * 60_000);
        assert!(!granted(&memory, &third).await);
        assert_eq!(memory.release(&third).await.unwrap(), Released::Freed);
        assert_eq!(memory.release(&third).await.unwrap(), Released::NotHeld);
        assert_eq!(memory.waiting(), 0);
        assert!(memory.locks().queues.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn places_that_nobody_gives_up_are_forgotten() {
        let (memory, [holder, ..]) = queue(MS * 60_000).await;
        sleep(MS * 60_000 + MS * 3_999).await;
        assert_eq!((memory.held(), memory.waiting()), (0, 2));
        sleep(MS).await;
        assert_eq!((memory.held(), memory.waiting()), (0, 0));
        assert_eq!(memory.release(&holder).await.unwrap(), Released::NotHeld);
        for number in 0..1_000 {
            let key = LockKey::new(format!("k{number}")).unwrap();
            let owner = OwnerToken::fresh(&OwnerLabel::new("test", ProcessRandom::get().unwrap()), 1);
            assert!(granted(&memory, &Claim::new(key, owner, MS * 60_000, false)).await);
        }
        assert!(memory.locks().queues.is_empty());
    }
}
