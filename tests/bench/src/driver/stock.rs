//! Many locks at once, and what they take.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::{JoinHandle, spawn_local};

use crate::command::Bytes;
use crate::contestant::{Contestant, How};
use crate::{ALLOCATOR, Result};

/// Calls that are made at a time.
const AT_A_TIME: usize = 256;

/// So often each key is asked for.
const TRIES: u32 = 10;

/// After so long all waiters have made their first attempt, or know that they need not.
const PARKED: Duration = Duration::from_millis(300);

type Waiter<C> = Pin<Box<dyn Future<Output = Result<<C as Contestant>::Held>>>>;

/// What a driver keeps.
pub(super) struct Stock<C: Contestant> {
    held: Vec<C::Held>,
    waiters: FuturesUnordered<Waiter<C>>,
}

impl<C: Contestant> Default for Stock<C> {
    fn default() -> Self {
        Self { held: Vec::new(), waiters: FuturesUnordered::new() }
    }
}

impl<C: Contestant> Stock<C> {
    /// Takes so many keys. What their guards take by themselves is not counted: they are the caller's.
    pub(super) async fn hold(&mut self, client: &Rc<C>, keys: usize) -> Result<Bytes> {
        let mut held = Vec::with_capacity(keys);
        let before = live();
        for began in (0..keys).step_by(AT_A_TIME) {
            let some = began..keys.min(began + AT_A_TIME);
            let taking: Vec<JoinHandle<Result<C::Held, String>>> = some
                .map(|number| {
                    let client = Rc::clone(client);
                    spawn_local(async move {
                        let key = C::key(number);
                        let mut tries = 1;
                        loop {
                            match client.acquire(&key, How::Renewed).await {
                                // A machine that does much else makes a time-out pass now and then.
                                Err(_) if tries < TRIES => tries += 1,
                                held => return held.map_err(|error| error.to_string()),
                            }
                        }
                    })
                })
                .collect();
            for one in taking {
                held.push(one.await??);
            }
        }
        let after = live();
        self.held = held;
        Ok(Bytes { before, after })
    }

    /// Lets so many callers wait for a key that somebody else holds. Their futures are the callers', so they are made
    /// before memory is looked at.
    pub(super) async fn park(&mut self, client: &Rc<C>, waiters: usize) -> Result<Bytes> {
        self.waiters = (0..waiters)
            .map(|_| {
                let client = Rc::clone(client);
                Box::pin(async move { client.acquire(&C::key(0), How::Wait).await }) as Waiter<C>
            })
            .collect();
        let before = live();
        // Some of them ask the server meanwhile.
        match tokio::time::timeout(PARKED, self.waiters.next()).await {
            Err(_) => Ok(Bytes { before, after: live() }),
            Ok(_) => Err("a waiter has not waited".into()),
        }
    }
}

/// What this process has allocated and not given back.
fn live() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated as u64).saturating_sub(stats.bytes_deallocated as u64)
}
