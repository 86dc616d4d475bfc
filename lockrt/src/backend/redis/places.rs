//! The places in queues that claims of one client may have, and what is told about them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backend::hint::Hint;
use crate::clock::Clock;

/// Every claim of one client that waits, by its owner's value, whichever connection it asked on.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<HashMap<String, Arc<Place>>>);

/// One claim that waits.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) hint: Hint,
    /// The number of the connection that it last asked or listened on.
    connection: AtomicU64,
}

/// An offer to a claim that is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unwanted {
    pub(super) owner: String,
    pub(super) lock: String,
}

impl Places {
    /// The place of `owner`, and whether it may have it at the server by now.
    pub(super) fn enter(&self, owner: &str) -> (Arc<Place>, bool) {
        let mut places = self.places();
        if let Some(place) = places.get(owner) {
            return (Arc::clone(place), true);
        }
        let place = Arc::new(Place { hint: Hint::new(), connection: AtomicU64::new(0) });
        places.insert(owner.to_owned(), Arc::clone(&place));
        (place, false)
    }

    pub(super) fn get(&self, owner: &str) -> Option<Arc<Place>> {
        self.places().get(owner).cloned()
    }

    /// The claim waits no more.
    pub(super) fn leave(&self, owner: &str) {
        let left = self.places().remove(owner);
        // Its drop may wake somebody, who may come back here.
        drop(left);
    }

    /// Takes in a message of the releasing script. Gives an offer back that nobody waits for.
    pub(super) fn told(&self, message: &str) -> Option<Unwanted> {
        let (kind, rest) = message.split_once(' ')?;
        let (number, rest) = rest.split_once(' ')?;
        match kind {
            "offer" => {
                let (owner, lock) = rest.split_once(' ')?;
                match self.get(owner) {
                    Some(place) => place.hint.call(),
                    None => return Some(Unwanted { owner: owner.to_owned(), lock: lock.to_owned() }),
                }
            }
            "standby" => {
                // One millisecond more, so that the offer has ended when the attempt arrives.
                let offer = Duration::from_millis(number.parse::<u64>().ok()?.saturating_add(1));
                if let Some(place) = self.get(rest) {
                    place.hint.look_at(Clock::system().now() + offer);
                }
            }
            _ => {}
        }
        None
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Notes the connection that the claim uses from now on, and whether it is another one: messages
    /// before it were perhaps lost.
    pub(super) fn moves_to(&self, connection: u64) -> bool {
        self.connection.swap(connection, Ordering::AcqRel) != connection
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn hears(place: &Place) -> bool {
        timeout(Duration::from_millis(20), place.hint.heard(Clock::system())).await.is_ok()
    }

    #[tokio::test]
    async fn an_offer_reaches_its_claim_and_one_without_a_claim_comes_back() {
        let places = Places::default();
        let (place, again) = places.enter("shop#1#aa");
        assert!(!again && places.enter("shop#1#aa").1);
        let offer = "offer 200 shop#1#aa orders of today";
        assert_eq!(places.told(offer), None);
        assert!(hears(&place).await);
        assert!(!hears(&place).await, "it was heard once");
        places.leave("shop#1#aa");
        let unwanted = Unwanted { owner: "shop#1#aa".into(), lock: "orders of today".into() };
        assert_eq!(places.told(offer), Some(unwanted));
    }

    #[tokio::test]
    async fn who_stands_by_looks_when_the_offer_to_another_ends() {
        let places = Places::default();
        let (place, _) = places.enter("shop#1#aa");
        let started = Clock::system().now();
        assert_eq!(places.told("standby 60 shop#1#aa"), None);
        place.hint.heard(Clock::system()).await;
        assert!(Clock::system().now().since(started) >= Duration::from_millis(61));
    }

    #[tokio::test]
    async fn messages_that_make_no_sense_are_ignored() {
        let places = Places::default();
        let (place, _) = places.enter("shop#1#aa");
        for message in ["", "offer", "offer 1 shop#1#aa", "standby x shop#1#aa", "hello 1 shop#1#aa orders"] {
            assert_eq!(places.told(message), None, "{message}");
        }
        assert!(!hears(&place).await);
    }

    #[test]
    fn a_place_knows_when_it_moves_to_another_connection() {
        let (place, _) = Places::default().enter("shop#1#aa");
        assert!(place.moves_to(1) && !place.moves_to(1) && place.moves_to(2));
    }
}
