//! Events: each once, in order, and a subscriber that panics changes nothing.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use lockrt::{LockKey, LockPolicy, Released};
use lockrt_tests::{Call, Fate, Faulty, Setup};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const TTL: Duration = Duration::from_millis(300);
const RENEWED: LockPolicy = LockPolicy::new(TTL).renew(Duration::from_secs(60));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

/// Keeps the messages of this library's events, and panics afterwards if it is told to.
#[derive(Clone, Default)]
struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    panics: bool,
}

impl Listener {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lockrt")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.heard.lock().unwrap().push(message.0);
        assert!(!self.panics, "a subscriber that panics on purpose");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One of each outcome, and the events it should cause.
async fn lives() -> Vec<&'static str> {
    let mut events = Vec::new();
    let service = Faulty::start(|_, _| Fate::Answered);
    let manager = service.manager();

    let body = manager.run(&KEY, &RENEWED, async |_| {
        sleep(TTL / 2).await;
        17
    });
    assert_eq!(body.await.unwrap(), 17);
    events.extend(["lock granted", "lock renewed", "lock released"]);

    let guard = manager.acquire(&KEY, &RENEWED).await.unwrap();
    assert!(manager.acquire(&KEY, &RENEWED).await.unwrap_err().is_contended());
    assert_eq!(guard.release().await, Released::Freed);
    events.extend(["lock granted", "lock contended", "lock released"]);

    let kept = LockPolicy::new(TTL);
    let lost = manager.run(&KEY, &kept, async |_| std::future::pending::<()>().await);
    assert!(lost.await.unwrap_err().is_lost());
    // The service keeps the key for a little longer than its owner does.
    events.extend(["lock granted", "lock lost", "lock released"]);

    service.follow(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let gone = manager.run(&KEY, &RENEWED, async |_| std::future::pending::<()>().await);
    assert!(gone.await.unwrap_err().is_lost());
    events.extend(["lock granted", "lock lost"]);
    events.extend(["lock was no longer ours when it was released"]);

    service.follow(|call, _| if call == Call::Acquire { Fate::NotApplied } else { Fate::Answered });
    assert!(manager.acquire(&KEY, &RENEWED).await.unwrap_err().is_unavailable());
    events.extend(["lock not granted"]);
    events
}

#[tokio::test(start_paused = true)]
async fn each_event_is_told_once_and_in_order() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let expected = lives().await;
    assert_eq!(listener.heard(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_panics_changes_no_outcome() {
    let listener = Listener { panics: true, ..Listener::default() };
    let _listening = tracing::subscriber::set_default(listener.clone());
    let expected = lives().await;
    assert_eq!(listener.heard(), expected, "it did panic each time");
}
