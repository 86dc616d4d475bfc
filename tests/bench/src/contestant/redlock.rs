//! The redlock crate on one server. It blocks its thread, and connects for every command.

use redlock::RedLock;

use super::{Contestant, How, stored_key};
use crate::Result;
use crate::options::Orders;

pub(crate) struct Redlock {
    // A lock borrows its manager; there is one per process, kept for ever.
    manager: &'static RedLock,
    ttl_ms: usize,
}

impl Contestant for Redlock {
    type Key = Vec<u8>;
    type Held = redlock::RedLockGuard<'static>;

    async fn connect(orders: &Orders) -> Result<Self> {
        let manager = Box::leak(Box::new(RedLock::new(vec![orders.url.as_str()])));
        Ok(Self { manager, ttl_ms: usize::try_from(orders.ttl.as_millis())? })
    }

    fn key(number: usize) -> Vec<u8> {
        stored_key(number).into_bytes()
    }

    async fn acquire(&self, key: &Vec<u8>, _: How) -> Result<Self::Held> {
        self.manager.acquire(key, self.ttl_ms).map_err(|error| error.to_string().into())
    }

    async fn release(&self, held: Self::Held) -> Result<()> {
        drop(held);
        Ok(())
    }
}
