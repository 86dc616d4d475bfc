//! What one claim's caller, its lease and the desk share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use once_cell::sync::OnceCell;
use tokio::sync::Notify;

use crate::claim::Released;
use crate::key::LockKey;
use crate::observe::Holding;
use crate::protocol::kept::{self, Id, Told};
use crate::protocol::lease::LeaseWord;
use crate::token::FencingToken;

/// Made for an acquire, and kept by its lease.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) id: Id,
    pub(crate) name: &'static str,
    /// The key as the caller knows it, without the manager's prefix.
    pub(crate) key: LockKey,
    /// Which manager wants it; keys of two managers are different locks.
    pub(crate) manager: u64,
    pub(crate) word: LeaseWord,
    pub(crate) fencing: OnceCell<FencingToken>,
    /// What is counted when it is given back.
    pub(crate) holding: Holding,
    given_back: AtomicBool,
    /// The lease is lost.
    pub(super) ended: Notify,
    mail: Mutex<Mail>,
}

#[derive(Debug, Default)]
struct Mail {
    letter: Option<Letter>,
    /// Who waits for it.
    caller: Option<Waker>,
}

/// An answer: to the attempt that is under way, or to the release.
#[derive(Debug)]
pub(super) enum Letter {
    Told(Told),
    Released(Released),
}

impl kept::Record for Record {
    fn name(&self) -> &'static str {
        self.name
    }

    fn key(&self) -> &LockKey {
        &self.key
    }

    fn word(&self) -> &LeaseWord {
        &self.word
    }
}

impl Record {
    pub(super) fn new(id: Id, name: &'static str, key: LockKey, manager: u64) -> Self {
        let (word, fencing, given_back) = (LeaseWord::unset(), OnceCell::new(), AtomicBool::new(false));
        let (holding, ended, mail) = (Holding::default(), Notify::new(), Mutex::default());
        Self { id, name, key, manager, word, fencing, holding, given_back, ended, mail }
    }

    /// Notes that the lease is being given back; false if that was done before.
    pub(crate) fn give_back(&self) -> bool {
        !self.given_back.swap(true, Ordering::AcqRel)
    }

    pub(super) fn post(&self, letter: Letter) {
        // A newer letter replaces one that nobody took.
        let former = self.mail().letter.replace(letter);
        drop(former);
    }

    pub(super) fn take(&self) -> Option<Letter> {
        self.mail().letter.take()
    }

    /// Wakes whoever waits for a letter. Wakers are code of others: nothing is locked while one runs.
    pub(super) fn call(&self) {
        let caller = self.mail().caller.take();
        if let Some(caller) = caller {
            caller.wake();
        }
    }

    /// Takes the letter, or has `waker` called when there is one.
    pub(super) fn take_or_wait(&self, waker: &Waker) -> Option<Letter> {
        let mut mail = self.mail();
        if mail.letter.is_some() || mail.caller.as_ref().is_some_and(|caller| caller.will_wake(waker)) {
            return mail.letter.take();
        }
        drop(mail);
        let caller = Some(waker.clone());
        let mut mail = self.mail();
        let former = std::mem::replace(&mut mail.caller, caller);
        let letter = mail.letter.take();
        drop(mail);
        drop(former);
        letter
    }

    /// Nobody waits for a letter any more.
    pub(super) fn stop_waiting(&self) {
        let caller = self.mail().caller.take();
        drop(caller);
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn record() -> Record {
        Record::new(1, "test", LockKey::new("k").unwrap(), 1)
    }

    #[test]
    fn the_last_one_who_waits_is_called_once_and_finds_the_letter() {
        let (record, [first, last]) = (record(), [(); 2].map(|()| Arc::new(Counted::default())));
        for counted in [&first, &last, &last] {
            assert!(record.take_or_wait(&Waker::from(Arc::clone(counted))).is_none());
        }
        record.post(Letter::Released(Released::Freed));
        record.call();
        record.call();
        assert_eq!([&first, &last].map(|counted| counted.0.load(Ordering::Relaxed)), [0, 1]);
        let waker = Waker::from(Arc::clone(&last));
        assert!(matches!(record.take_or_wait(&waker), Some(Letter::Released(Released::Freed))));
        assert!(record.take().is_none());
    }

    #[test]
    fn who_has_stopped_waiting_is_not_kept() {
        let (record, counted) = (record(), Arc::new(Counted::default()));
        let waker = Waker::from(Arc::clone(&counted));
        assert!(record.take_or_wait(&waker).is_none());
        drop(waker);
        assert_eq!(Arc::strong_count(&counted), 2);
        record.stop_waiting();
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn a_record_takes_no_more_room_than_it_did() {
        let least = size_of::<Record>() - size_of::<Holding>();
        assert!(least <= 176, "{least}");
    }
}
