//! The claims of one client that wait, and what is told about their keys.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::hint::Hint;
use crate::claim::Claim;
use crate::key::digest_of;

/// How much of a key's digest a notification carries; anybody in the database may read it.
const DIGITS: usize = 32;

/// Every claim of one client that waits, by the name of its key in notifications and by its owner.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<HashMap<String, HashMap<String, Arc<Waiter>>>>);

/// One claim that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) hint: Hint,
    /// The number of the connection that it last listened on.
    connection: AtomicU64,
}

/// What notifications call the key of `claim`.
pub(super) fn name_of(claim: &Claim) -> String {
    let mut digest = digest_of(claim.key().as_str());
    digest.truncate(DIGITS);
    digest
}

impl Waiters {
    /// What `claim` is told, and whether it has asked before.
    pub(super) fn enter(&self, claim: &Claim) -> (Arc<Waiter>, bool) {
        let mut keys = self.keys();
        let waiters = keys.entry(name_of(claim)).or_default();
        let owner = claim.owner().wire();
        if let Some(waiter) = waiters.get(&owner) {
            return (Arc::clone(waiter), true);
        }
        let waiter = Arc::new(Waiter { hint: Hint::new(), connection: AtomicU64::new(0) });
        waiters.insert(owner, Arc::clone(&waiter));
        (waiter, false)
    }

    pub(super) fn get(&self, claim: &Claim) -> Option<Arc<Waiter>> {
        self.keys().get(&name_of(claim))?.get(&claim.owner().wire()).cloned()
    }

    /// The claim waits no more.
    pub(super) fn leave(&self, claim: &Claim) {
        let name = name_of(claim);
        let mut keys = self.keys();
        let Some(waiters) = keys.get_mut(&name) else { return };
        let left = waiters.remove(&claim.owner().wire());
        if waiters.is_empty() {
            keys.remove(&name);
        }
        drop(keys);
        // Its drop may wake somebody, who may come back here.
        drop(left);
    }

    /// Takes in a notification: the key of this name may be free.
    pub(super) fn told(&self, name: &str) {
        let waiters: Vec<Arc<Waiter>> =
            self.keys().get(name).map(|waiters| waiters.values().cloned().collect()).unwrap_or_default();
        for waiter in waiters {
            waiter.hint.call();
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, HashMap<String, Arc<Waiter>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Notes the connection that the claim listens on from now on, and whether it is another one:
    /// notifications before it were perhaps lost.
    pub(super) fn moves_to(&self, connection: u64) -> bool {
        self.connection.swap(connection, Ordering::AcqRel) != connection
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::clock::Clock;
    use crate::key::LockKey;
    use crate::token::{OwnerLabel, OwnerToken, ProcessRandom};

    async fn hears(waiter: &Waiter) -> bool {
        timeout(Duration::from_millis(20), waiter.hint.heard(Clock::system())).await.is_ok()
    }

    fn claim(key: &str) -> Claim {
        let owner = OwnerToken::fresh(&OwnerLabel::new("test", ProcessRandom::get().unwrap()), 1);
        Claim::new(LockKey::new(key).unwrap(), owner, Duration::from_secs(60), true)
    }

    #[tokio::test]
    async fn all_who_wait_for_a_key_hear_of_it_and_nobody_else() {
        let (waiters, claims) = (Waiters::default(), [claim("a"), claim("a"), claim("b")]);
        let entered = claims.each_ref().map(|claim| waiters.enter(claim).0);
        waiters.told(&name_of(&claims[0]));
        assert!(hears(&entered[0]).await && hears(&entered[1]).await && !hears(&entered[2]).await);
        assert!(!hears(&entered[0]).await, "it was heard once");
    }

    #[tokio::test]
    async fn who_has_left_is_forgotten() {
        let (waiters, claim) = (Waiters::default(), claim("a"));
        assert!(!waiters.enter(&claim).1 && waiters.enter(&claim).1);
        assert!(waiters.get(&claim).is_some());
        waiters.leave(&claim);
        waiters.leave(&claim);
        assert!(waiters.get(&claim).is_none() && waiters.keys().is_empty());
        waiters.told(&name_of(&claim));
        waiters.told("nonsense");
    }

    #[test]
    fn a_notification_tells_no_key() {
        let name = name_of(&claim("mail:jane@example.org"));
        assert!(name.len() == DIGITS && name.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    }

    #[test]
    fn a_waiter_knows_when_it_moves_to_another_connection() {
        let (waiter, _) = Waiters::default().enter(&claim("a"));
        assert!(waiter.moves_to(1) && !waiter.moves_to(1) && waiter.moves_to(2));
    }
}
