//! Events: each once, in order, and a subscriber that panics changes nothing.
//!
//! `observe` sends them; this file, which is for tests alone, listens.

use std::fmt::{Debug, Write};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_default;
use tracing::{Dispatch, Event, Metadata, Subscriber};

use super::Locks;
use super::faulty::{Call, Fate, Faulty};
use super::watching::until;
use crate::claim::Released;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key};
use crate::policy::LockPolicy;
use crate::testing;

/// Those of one lock granted, renewed, released, contended, lost, taken away and unavailable.
pub async fn each_event_is_told_once_and_in_order(locks: &Locks<impl Service>) {
    lives(locks, &Listener::default()).await;
}

/// In spite of a panic at each of them, calls end as they do without.
pub async fn a_subscriber_that_panics_changes_no_outcome(locks: &Locks<impl Service>) {
    lives(locks, &Listener { panics: true, ..Listener::default() }).await;
}

/// Keeps the messages of this library's events about locks, and panics afterwards if it is told to.
#[derive(Clone, Default)]
struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    panics: bool,
}

impl Listener {
    fn heard(&self) -> MutexGuard<'_, Vec<String>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until as many events were heard as are wanted, and compares them; each may have several texts.
    async fn expects(&self, wanted: &[&str]) {
        until("the events are told", async || self.heard().len() >= wanted.len()).await;
        let heard = std::mem::take(&mut *self.heard());
        let as_wanted = |(heard, wanted): (&String, &&str)| wanted.split('|').any(|text| text == heard);
        let right = heard.len() == wanted.len() && heard.iter().zip(wanted).all(as_wanted);
        assert!(right, "heard {heard:?} in place of {wanted:?}");
    }
}

/// One of each outcome, and the events it should cause.
async fn lives(locks: &Locks<impl Service>, listener: &Listener) {
    // While there is one subscriber, `tracing` asks that of the thread which comes to an event first, perhaps
    // another test's that has none, whether anybody listens. With two it asks them.
    let second = Dispatch::new(listener.clone());
    let listening = set_default(listener.clone());
    outcomes(locks, listener).await;
    drop((listening, second));
}

async fn outcomes(locks: &Locks<impl Service>, listener: &Listener) {
    let service = Faulty::on(locks.client().await, |_, _| Fate::Answered);
    // A keeper on this thread, where the listener is.
    let manager = testing::manager(service.clone());
    let (key, ttl) = (key("told"), locks.short());
    let (plain, renewed) = (LockPolicy::new(ttl), LockPolicy::new(ttl).renew(LONG));

    let body = manager.run(&key, &renewed, async |_| {
        until("it is renewed", async || listener.heard().len() > 1).await;
        17
    });
    assert_eq!(body.await.unwrap(), 17);
    listener.expects(&["lock granted", "lock renewed", "lock released"]).await;

    let guard = manager.acquire(&key, &plain).await.unwrap();
    assert!(manager.acquire(&key, &plain).await.unwrap_err().is_contended());
    assert_eq!(guard.release().await, Released::Freed);
    listener.expects(&["lock granted", "lock contended", "lock released"]).await;

    let lost = manager.run(&key, &plain, async |_| pending::<()>().await);
    assert!(lost.await.unwrap_err().is_lost());
    // The service keeps the key for a little longer than its owner does.
    let released = "lock released|lock was no longer ours when it was released";
    listener.expects(&["lock granted", "lock lost", released]).await;

    service.follow(|call, _| if call == Call::Renew { Fate::Unknown } else { Fate::Answered });
    let guard = manager.acquire(&key, &renewed).await.unwrap();
    until("a renewal fails", async || listener.heard().len() > 1).await;
    assert_eq!(guard.release().await, Released::Freed);
    let failed = "lock renewal failed; it is tried again until the lease ends";
    listener.expects(&["lock granted", failed, "lock released"]).await;

    service.follow(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let gone = manager.run(&key, &renewed, async |_| pending::<()>().await);
    assert!(gone.await.unwrap_err().is_lost());
    listener.expects(&["lock granted", "lock lost", "lock was no longer ours when it was released"]).await;

    service.follow(|call, _| if call == Call::Acquire { Fate::NotApplied } else { Fate::Answered });
    assert!(manager.acquire(&key, &plain).await.unwrap_err().is_unavailable());
    listener.expects(&["lock not granted"]).await;
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lockrt::observe")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.heard().push(message.0);
        if self.panics {
            // Without a word: printing a panic takes longer than some leases last.
            resume_unwind(Box::new("a subscriber that panics on purpose"));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
