//! A counter in a key of Redis: [`RedisKey`].

use std::time::Duration;

use lockrt::Lease;
use lockrt::fence::redis::{RedisFence, Write};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, AsyncConnectionConfig};

use crate::way::Way;
use crate::writer::{NotRaised, stand_still};

pub(crate) struct RedisKey {
    way: Way,
    connection: MultiplexedConnection,
    fence: RedisFence,
    key: String,
}

impl RedisKey {
    pub(crate) async fn open(way: Way, url: &str, id: &str) -> Self {
        let patience = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
        let client = redis::Client::open(url).unwrap();
        let connection = client.get_multiplexed_async_connection_with_config(&patience).await.unwrap();
        let key = format!("counter:{id}");
        Self { way, connection, fence: RedisFence::beside(&key).unwrap(), key }
    }

    pub(crate) async fn read(&mut self) -> u64 {
        let value: Option<u64> = self.connection.get(&self.key).await.unwrap();
        value.unwrap_or_default()
    }

    pub(crate) async fn raise(&mut self, lease: &Lease) -> Result<(), NotRaised> {
        if self.way == Way::RedisFence {
            self.fence.register(&mut self.connection, lease).await?;
        }
        let n = self.read().await + 1;
        stand_still();
        let connection = &mut self.connection;
        let answer = match self.way {
            Way::RedisFence => self.fence.write(connection, lease, Write::set(n)).await,
            Way::RedisOnce => self.fence.write_once(connection, lease, Write::set(n)).await,
            _ => {
                let () = connection.set(&self.key, n).await.unwrap();
                return Ok(());
            }
        };
        Ok(answer.map(drop)?)
    }
}
