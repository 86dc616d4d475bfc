//! Channels on which releases are told, and who listens.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};
use tokio::sync::watch;

use crate::clock::{Clock, Moment};

/// How long a subscription outlives its last use. A waiter listens again soon.
const LINGER: Duration = Duration::from_secs(5);

/// The subscriptions of one connection.
///
/// A topic that ends (its connection broke, or it was unsubscribed) drops its sender, whereupon its
/// listeners start anew.
#[derive(Debug, Default)]
pub(super) struct Wakeups {
    topics: Mutex<Topics>,
}

#[derive(Debug, Default)]
struct Topics {
    by_channel: HashMap<Vec<u8>, Topic>,
    closed: bool,
}

#[derive(Debug)]
struct Topic {
    told: watch::Sender<()>,
    /// Set by the server's confirmation, not by whoever asked, since asking can be cancelled.
    subscribed: bool,
    last_use: Moment,
}

/// One who listens. Dropping it is all it takes to stop.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) told: watch::Receiver<()>,
    /// Whether the server has confirmed a subscription by now.
    pub(super) subscribed: bool,
}

/// The channel on which releases of the lock of this name are told.
pub(super) fn channel_of(lock: &str) -> String {
    format!("{lock}:freed")
}

impl Wakeups {
    /// Starts to listen; messages from now on are heard. Gives also the channels to unsubscribe.
    pub(super) fn listen(&self, channel: &str) -> (Listener, Vec<Vec<u8>>) {
        let now = Clock::system().now();
        let mut topics = self.topics();
        if topics.closed {
            return (Listener { told: watch::channel(()).1, subscribed: true }, Vec::new());
        }
        let topic = topics.by_channel.entry(channel.as_bytes().to_vec()).or_insert_with(|| Topic {
            told: watch::channel(()).0,
            subscribed: false,
            last_use: now,
        });
        topic.last_use = now;
        let listener = Listener { told: topic.told.subscribe(), subscribed: topic.subscribed };
        (listener, topics.take_idle(now))
    }

    /// Takes in what the server pushed. Gives the channels to unsubscribe.
    pub(super) fn pushed(&self, push: &PushInfo) -> Vec<Vec<u8>> {
        let channel = match push.data.first() {
            Some(Value::BulkString(channel)) => channel.as_slice(),
            _ => &[],
        };
        let mut topics = self.topics();
        match push.kind {
            PushKind::Disconnection => topics.close(),
            PushKind::Subscribe => {
                if let Some(topic) = topics.by_channel.get_mut(channel) {
                    topic.subscribed = true;
                }
            }
            // Whoever listens by now came after the decision to unsubscribe, and asks again.
            PushKind::Unsubscribe => drop(topics.by_channel.remove(channel)),
            PushKind::Message => return topics.told(channel, Clock::system().now()),
            _ => {}
        }
        Vec::new()
    }

    /// Ends every topic, for good.
    pub(super) fn close(&self) {
        self.topics().close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.topics().closed
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topics {
    fn close(&mut self) {
        self.closed = true;
        self.by_channel.clear();
    }

    /// Wakes the listeners of `channel`. A message that nobody waits for is the occasion to tidy.
    fn told(&mut self, channel: &[u8], now: Moment) -> Vec<Vec<u8>> {
        match self.by_channel.get_mut(channel) {
            Some(topic) if topic.told.receiver_count() > 0 => {
                topic.last_use = now;
                topic.told.send_replace(());
                Vec::new()
            }
            _ => self.take_idle(now),
        }
    }

    /// Forgets the topics that nobody has used for a while.
    fn take_idle(&mut self, now: Moment) -> Vec<Vec<u8>> {
        let idle = |topic: &Topic| topic.told.receiver_count() == 0 && now.since(topic.last_use) >= LINGER;
        self.by_channel.extract_if(|_, topic| idle(topic)).map(|(channel, _)| channel).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(kind: PushKind, channel: &str) -> PushInfo {
        PushInfo { kind, data: vec![Value::BulkString(channel.as_bytes().to_vec())] }
    }

    #[test]
    fn a_message_wakes_those_who_listen_to_its_channel_only() {
        let wakeups = Wakeups::default();
        let (here, _) = wakeups.listen("a:freed");
        let (there, _) = wakeups.listen("b:freed");
        wakeups.pushed(&push(PushKind::Message, "a:freed"));
        assert!(here.told.has_changed().unwrap());
        assert!(!there.told.has_changed().unwrap());
    }

    #[test]
    fn a_subscription_counts_once_the_server_confirms_it() {
        let wakeups = Wakeups::default();
        assert!(!wakeups.listen("a:freed").0.subscribed);
        assert!(!wakeups.listen("a:freed").0.subscribed);
        wakeups.pushed(&push(PushKind::Subscribe, "a:freed"));
        assert!(wakeups.listen("a:freed").0.subscribed);
    }

    #[test]
    fn the_end_of_a_connection_or_a_subscription_reaches_its_listeners() {
        let wakeups = Wakeups::default();
        let (ended, _) = wakeups.listen("a:freed");
        let (kept, _) = wakeups.listen("b:freed");
        wakeups.pushed(&push(PushKind::Unsubscribe, "a:freed"));
        assert!(ended.told.has_changed().is_err() && kept.told.has_changed().is_ok());
        wakeups.pushed(&push(PushKind::Disconnection, ""));
        assert!(kept.told.has_changed().is_err());
        assert!(wakeups.is_closed() && wakeups.listen("a:freed").0.told.has_changed().is_err());
    }

    #[test]
    fn a_topic_is_given_up_some_time_after_its_last_use() {
        let wakeups = Wakeups::default();
        let (gone, _) = wakeups.listen("a:freed");
        drop(gone);
        let (_stays, _) = wakeups.listen("b:freed");
        let mut topics = wakeups.topics();
        let now = Clock::system().now();
        assert!(topics.told(b"a:freed", now).is_empty());
        assert_eq!(topics.told(b"a:freed", now + LINGER), [b"a:freed".to_vec()]);
        assert!(topics.told(b"a:freed", now + LINGER).is_empty());
        assert!(topics.by_channel.contains_key(b"b:freed".as_slice()));
    }
}
