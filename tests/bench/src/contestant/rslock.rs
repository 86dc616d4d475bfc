//! rslock, on one server.

use std::time::Duration;

use rslock::{LockGuard, LockManager};

use super::{Contestant, How, stored_key};
use crate::Result;
use crate::options::Orders;

pub(crate) struct Rslock {
    manager: LockManager,
    ttl: Duration,
}

impl Contestant for Rslock {
    type Key = Vec<u8>;
    type Held = LockGuard;

    async fn connect(orders: &Orders) -> Result<Self> {
        Ok(Self { manager: LockManager::new(vec![orders.url.as_str()]), ttl: orders.ttl })
    }

    fn key(number: usize) -> Vec<u8> {
        stored_key(number).into_bytes()
    }

    async fn acquire(&self, key: &Vec<u8>, _: How) -> Result<LockGuard> {
        Ok(self.manager.acquire(key.as_slice(), self.ttl).await?)
    }

    async fn release(&self, held: LockGuard) -> Result<()> {
        held.release().await;
        Ok(())
    }
}
