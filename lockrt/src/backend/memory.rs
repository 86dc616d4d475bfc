//! Locks in this process's memory: for tests, first runs, and as the pattern for other backends.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use crate::backend::contract::Backend;
use crate::claim::{Attempt, Capabilities, Claim, FenceStrength, Released, Renewed};
use crate::clock::{Clock, Moment};
use crate::error::BackendError;
use crate::key::LockKey;
use crate::token::{FencingToken, OwnerToken};

const CAPABILITIES: Capabilities =
    Capabilities::new("memory").fences(FenceStrength::Durable).wakes_on_release();

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
    /// Who listens for a key; an entry lives while somebody does.
    listeners: HashMap<LockKey, Arc<Notify>>,
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

    /// Forgets expired locks once they outnumber the live ones, so that memory stays bounded.
    fn sweep(&mut self, now: Moment) {
        if self.held.len() == self.held.capacity() {
            self.held.retain(|_, held| now < held.until);
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
            return Ok(Attempt::Held { free_in: Some(held.until.since(now)) });
        }
        locks.sweep(now);
        let held = Held { owner: claim.owner().clone(), until: now + claim.ttl() };
        locks.held.insert(claim.key().clone(), held);
        Ok(Attempt::Granted { fencing: Some(locks.mint()) })
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
        match locks.holder(claim.key(), now) {
            Some(held) if held.owner == *claim.owner() => {}
            _ => return Ok(Released::NotHeld),
        }
        locks.held.remove(claim.key());
        let listeners = locks.listeners.get(claim.key()).cloned();
        // Whoever is woken runs code of others, which may come back here.
        drop(locks);
        if let Some(listeners) = listeners {
            listeners.notify_waiters();
        }
        Ok(Released::Freed)
    }

    fn freed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        // The listener stands in the list from this call on, not from the first poll.
        let listening = Listening::new(self, claim.key());
        async move { listening.notified().await }
    }
}

/// A place in the list of listeners, given up on drop.
struct Listening {
    memory: Memory,
    key: LockKey,
    notify: Arc<Notify>,
}

impl Listening {
    fn new(memory: &Memory, key: &LockKey) -> Self {
        let notify = Arc::clone(memory.locks().listeners.entry(key.clone()).or_default());
        Self { memory: memory.clone(), key: key.clone(), notify }
    }

    async fn notified(&self) {
        let notified = self.notify.notified();
        let now = self.memory.0.clock.now();
        // A lock that is free by now was freed before `notified` could see it.
        if self.memory.locks().holder(&self.key, now).is_some() {
            notified.await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut locks = self.memory.locks();
        // Ours ends here, where nobody else can count or take references to the same one.
        drop(std::mem::take(&mut self.notify));
        if locks.listeners.get(&self.key).is_some_and(|listed| Arc::strong_count(listed) == 1) {
            locks.listeners.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::token::{OwnerLabel, ProcessRandom};

    fn claim(number: u32) -> Claim {
        let owner = OwnerToken::fresh(&OwnerLabel::new("test"), ProcessRandom::get().unwrap());
        Claim::new(LockKey::new(format!("k{number}")).unwrap(), owner, Duration::from_secs(1), true)
    }

    #[test]
    fn listeners_that_leave_together_leave_no_entry() {
        let memory = Memory::new();
        let claims: Vec<_> = (0..500).map(claim).collect();
        let step = AtomicUsize::new(0);
        let meet = |count: usize| {
            step.fetch_add(1, Ordering::SeqCst);
            while step.load(Ordering::SeqCst) < count * 2 {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for (round, claim) in claims.iter().enumerate() {
                        let listening = memory.freed(claim);
                        meet(round + 1);
                        drop(listening);
                    }
                });
            }
        });
        assert_eq!(memory.locks().listeners.len(), 0);
    }
}
