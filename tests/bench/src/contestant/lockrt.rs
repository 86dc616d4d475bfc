//! lockrt.

use std::time::Duration;

use lockrt::{LockGuard, LockKey, LockManager, LockPolicy, Released};

use super::{Contestant, How, bare_key};
use crate::Result;
use crate::contestant::Name;
use crate::options::Orders;

pub(crate) struct Lockrt {
    manager: LockManager,
    policy: LockPolicy,
    awaits: bool,
}

/// A manager whose connection is made, if need be after several tries: many of them begin at once here.
async fn connected(url: &str) -> Result<LockManager> {
    let mut tries = 0;
    loop {
        match LockManager::builder().label("bench@host:1").connect(url).await {
            Err(_) if tries < 10 => tries += 1,
            other => return Ok(other?),
        }
    }
}

impl Contestant for Lockrt {
    type Key = LockKey;
    type Held = LockGuard;

    async fn connect(orders: &Orders) -> Result<Self> {
        let manager = connected(&orders.url).await?;
        let awaits = orders.name != Name::LockrtStarted;
        Ok(Self { manager, policy: LockPolicy::new(orders.ttl).named("bench"), awaits })
    }

    fn key(number: usize) -> LockKey {
        LockKey::new(bare_key(number)).expect("the key is plain text")
    }

    async fn acquire(&self, key: &LockKey, how: How) -> Result<LockGuard> {
        let policy = match how {
            How::Free => self.policy,
            How::Wait => self.policy.wait_forever(),
            How::Renewed => self.policy.renew(Duration::from_secs(3_600)),
        };
        Ok(self.manager.acquire(key, &policy).await?)
    }

    async fn release(&self, held: LockGuard) -> Result<()> {
        if !self.awaits {
            drop(held);
            return Ok(());
        }
        match held.release().await {
            // On a machine that does much else, the keeper may have to go on with it.
            Released::Freed | Released::Deferred => Ok(()),
            other => Err(format!("lockrt: released, and told {other:?}").into()),
        }
    }
}
