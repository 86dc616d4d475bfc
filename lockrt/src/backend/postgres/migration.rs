//! How the tables are made.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::backend::postgres::{Postgres, failure};
use crate::error::{BackendError, SetupError};

/// How long it may take, a wait for another process that does the same included.
const PATIENCE: Duration = Duration::from_secs(30);

/// The advisory lock under which tables are made: two that are made at once would collide. Any number will do.
const TURN: i64 = 0x6c6f_636b_7274;

impl Postgres {
    /// The statements that make the tables, for a tool that keeps track of migrations. They can be run
    /// again, and change nothing then.
    #[must_use]
    pub fn schema_sql(&self) -> &str {
        &self.statements.tables
    }

    /// Makes the tables if they are missing, on a connection that is closed afterwards. It runs on the
    /// caller's tokio runtime. The user needs the right to create tables in the schema, unless the tables are
    /// there already.
    ///
    /// # Errors
    ///
    /// [`SetupError::Unavailable`] with what the server said; nothing was made then.
    ///
    /// # Cancellation
    ///
    /// The tables are made or not, all of them.
    pub async fn migrate(&self) -> Result<(), SetupError> {
        let migrated = tokio::time::timeout(PATIENCE, self.make_tables()).await;
        let migrated = migrated.unwrap_or_else(|_| {
            Err(BackendError::unknown("the tables were not made within 30 s; is another process at it?"))
        });
        migrated.map_err(|source| SetupError::Unavailable { url: self.settings.shown.clone(), source })
    }

    async fn make_tables(&self) -> Result<(), BackendError> {
        // Without our time-outs: making tables may take longer than an attempt.
        let server = self.link.server().by(self.settings.completed(self.settings.pooled, ""));
        let (client, connection) = server.connect().await?;
        let locks = format!("{}.lockrt_locks", self.statements.schema);
        let floor = format!("{}.lockrt_floor", self.statements.schema);
        let making = async {
            let there = "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL";
            let row = client.query_typed_one(there, &[(&locks, Type::TEXT), (&floor, Type::TEXT)]).await?;
            if row.try_get(0)? {
                return Ok(());
            }
            let tables = &self.statements.tables;
            // One simple query is one transaction.
            client.batch_execute(&format!("SELECT pg_advisory_xact_lock({TURN});\n{tables}")).await
        };
        tokio::select! {
            done = making => done.map_err(|error| failure::after_sending(&error)),
            ended = connection => Err(ended.err().map_or_else(
                || BackendError::unknown("the connection to PostgreSQL ended"),
                |error| failure::after_sending(&error),
            )),
        }
    }
}
