//! Connections to the database, and its tables.

use std::time::Duration;

use lockrt::postgres::lock_in;
use lockrt::{LockKey, LockPolicy, Postgres, fence};
use tokio_postgres::{Client, Config, NoTls};

use crate::error::StartError;

/// How long a transaction may stand still. A holder that is stopped in the middle of one keeps its locks, and all others
/// out, until the server ends its session.
const STANDS_STILL: Duration = Duration::from_secs(2);

/// The tables are made by one instance at a time; the ttl of a lock in a transaction says nothing.
static TABLES: LockPolicy = LockPolicy::new(Duration::from_secs(30)).named("tables").wait_forever();

#[derive(Debug)]
pub(crate) struct Database {
    config: Config,
}

impl Database {
    /// The database at `url`, in which the tables are made if they are missing.
    pub(crate) async fn open(url: &str) -> Result<Self, StartError> {
        let database = Self { config: url.parse()? };
        Postgres::from_url(url)?.migrate().await?;
        let mut client = database.connect().await?;
        let transaction = client.transaction().await?;
        lock_in(&transaction, &LockKey::new("inventory-service:tables")?, &TABLES).await?;
        transaction.batch_execute(include_str!("schema.sql")).await?;
        transaction.batch_execute(fence::postgres::SCHEMA).await?;
        transaction.commit().await?;
        Ok(database)
    }

    /// A connection for one request, closed when it is dropped. A busy service takes one of a pool here, and takes it
    /// *inside* of the lock, so that whoever waits for a lock holds no connection.
    pub(crate) async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(connection);
        let limit = format!("SET idle_in_transaction_session_timeout = {}", STANDS_STILL.as_millis());
        client.batch_execute(&limit).await?;
        Ok(client)
    }
}
