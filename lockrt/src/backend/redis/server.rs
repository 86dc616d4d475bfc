//! The server, and how a connection to it is made.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisError};

use crate::backend::redis::failure;
#[cfg(feature = "redis-tls")]
use crate::backend::redis::secured::Secured;
use crate::error::BackendError;

/// A server to connect to, over TLS if its URL says so.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
    #[cfg(feature = "redis-tls")]
    secured: Option<Secured>,
}

/// A connection, and what ends with it.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) commands: MultiplexedConnection,
    /// The task that carries them out, where it is ours.
    task: Option<tokio::task::AbortHandle>,
}

impl Server {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            #[cfg(feature = "redis-tls")]
            secured: None,
        }
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn secured(self, secured: Secured) -> Self {
        Self { secured: Some(secured), ..self }
    }

    /// A connection whose server has greeted.
    pub(super) async fn connect(&self, settings: &AsyncConnectionConfig) -> Result<Driver, BackendError> {
        #[cfg(feature = "redis-tls")]
        if let Some(secured) = &self.secured {
            let stream = secured.stream(self.client.get_connection_info()).await?;
            let greeting = MultiplexedConnection::new_with_config(
                self.client.get_connection_info().redis_settings(),
                stream,
                settings.clone(),
            );
            let (commands, driver) = greeting.await.map_err(|error| failure::before_sending(&error))?;
            return Ok(Driver { commands, task: Some(tokio::spawn(driver).abort_handle()) });
        }
        let failed = |error: RedisError| {
            let failed = failure::before_sending(&error);
            let over_tcp = matches!(self.client.get_connection_info().addr(), ConnectionAddr::Tcp(..));
            if over_tcp && error.is_connection_dropped() && !error.is_connection_refusal() {
                return BackendError::not_applied(format!("{failed}; perhaps it wants TLS: `rediss://`"));
            }
            failed
        };
        let commands = self.client.get_multiplexed_async_connection_with_config(settings).await;
        Ok(Driver { commands: commands.map_err(failed)?, task: None })
    }

    /// A connection was not made in time.
    #[cfg_attr(not(feature = "redis-tls"), allow(clippy::unused_self, reason = "as with the feature"))]
    pub(super) fn late(&self) -> BackendError {
        let late = failure::late();
        #[cfg(feature = "redis-tls")]
        if self.secured.is_some() {
            return BackendError::not_applied(format!(
                "{late}; perhaps the server speaks no TLS at this port"
            ));
        }
        late
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}
