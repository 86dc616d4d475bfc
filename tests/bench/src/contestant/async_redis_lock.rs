//! async-redis-lock, which renews every lock by a task of its own.

use async_redis_lock::{Lock, Locker, Options};

use super::{Contestant, How, stored_key};
use crate::Result;
use crate::options::Orders;

pub(crate) struct AsyncRedisLock {
    locker: Locker,
    options: Options,
}

impl Contestant for AsyncRedisLock {
    type Key = String;
    type Held = Lock;

    async fn connect(orders: &Orders) -> Result<Self> {
        let locker = Locker::from_redis_url(&orders.url).await?;
        let options = Options::new().timeout(None).ttl(orders.ttl).extend(orders.ttl / 3);
        Ok(Self { locker, options })
    }

    fn key(number: usize) -> String {
        stored_key(number)
    }

    async fn acquire(&self, key: &String, _: How) -> Result<Lock> {
        Ok(self.locker.acquire_with_options(&self.options, key).await?)
    }

    async fn release(&self, held: Lock) -> Result<()> {
        Ok(held.release().await?)
    }
}
