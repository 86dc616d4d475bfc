//! Connections that live in the runtimes of callers, so that an uncontended lock changes no threads.
//!
//! They carry calls that their callers poll themselves. Renewals, clean-up, waiting and what a caller leaves go
//! over the connection in the keeper's runtime, which is there whatever becomes of a caller's.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use crate::backend::caller;
use crate::backend::redis::connection::{Connection, Ear};
use crate::backend::redis::link::Link;
use crate::backend::redis::server::Server;

/// Calls from one runtime before it gets a connection of its own: a runtime of a few calls is not worth one.
const FEW: u32 = 32;

/// How many runtimes are remembered before those that have ended are forgotten.
const MANY: usize = 64;

/// The connections of one client, by runtime.
#[derive(Debug)]
pub(super) struct Direct {
    wanted: bool,
    runtimes: Mutex<Vec<Runtime>>,
    /// Ends the connections when the client is dropped.
    open: watch::Sender<()>,
}

#[derive(Debug)]
struct Runtime {
    /// Another runtime may have it once this one has ended.
    id: Id,
    calls: u32,
    /// A task of the runtime has the strong end: with the runtime ends what lives in it.
    link: Weak<Link>,
}

impl Direct {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, runtimes: Mutex::default(), open: watch::channel(()).0 }
    }

    /// The connection in the runtime of whoever polls, if there is one by now.
    pub(super) fn connection(&self, server: &Server, ear: &Ear) -> Option<Arc<Connection>> {
        if !self.wanted {
            return None;
        }
        let runtime = caller::runtime()?;
        let link = self.link(&runtime, server, ear)?;
        link.ready(&runtime)
    }

    fn link(&self, runtime: &Handle, server: &Server, ear: &Ear) -> Option<Arc<Link>> {
        let id = runtime.id();
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = runtimes.iter_mut().find(|known| known.id == id) else {
            if runtimes.len() >= MANY {
                runtimes.retain(|known| known.link.strong_count() > 0);
            }
            runtimes.push(Runtime { id, calls: 1, link: Weak::new() });
            return None;
        };
        if let Some(link) = known.link.upgrade() {
            return Some(link);
        }
        known.calls += 1;
        if known.calls < FEW {
            return None;
        }
        known.calls = 0;
        let link = Arc::new(Link::of_caller(server.clone(), ear.clone()));
        known.link = Arc::downgrade(&link);
        drop(runtimes);
        let (mut open, stays) = (self.open.subscribe(), Arc::clone(&link));
        runtime.spawn(async move {
            let _ = open.changed().await;
            drop(stays);
        });
        Some(link)
    }
}
