//! A counter in a row of PostgreSQL: [`Row`].

use lockrt::fence::postgres::PostgresFence;
use lockrt::postgres::lock_in;
use lockrt::{FencingToken, Lease, LockKey, LockPolicy};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, NoTls, Transaction};

use crate::way::Way;
use crate::writer::{NotRaised, TTL, stand_still};

const READ: &str = "SELECT n FROM counter WHERE id = $1";
const WRITE: &str = "UPDATE counter SET n = $1 WHERE id = $2";

pub(crate) struct Row {
    way: Way,
    url: String,
    client: Client,
    fence: PostgresFence,
    id: i64,
}

impl Row {
    pub(crate) async fn open(way: Way, url: &str, id: &str) -> Self {
        let client = connected(url).await;
        let id: i64 = id.parse().unwrap();
        let row = "INSERT INTO counter VALUES ($1, 0) ON CONFLICT DO NOTHING";
        client.execute(row, &[&id]).await.unwrap();
        // A fence of its own is none.
        let process = if way == Way::Forgetful { std::process::id() } else { 0 };
        let fence = PostgresFence::new(&format!("counter:{id}:{process}")).unwrap();
        Self { way, url: url.to_owned(), client, fence, id }
    }

    pub(crate) async fn read(&self) -> u64 {
        u64::try_from(self.n().await).unwrap()
    }

    async fn n(&self) -> i64 {
        self.client.query_one(READ, &[&self.id]).await.unwrap().get(0)
    }

    pub(crate) async fn raise(&mut self, lease: &Lease) -> Result<(), NotRaised> {
        let token = i64::try_from(lease.fencing().map_or(0, FencingToken::get)).unwrap();
        match self.way {
            Way::RowFence | Way::Forgetful => {
                self.fence.register(&self.client, lease).await?;
            }
            Way::RowColumn => {
                let register = "UPDATE counter SET fencing_token = $1 WHERE id = $2 AND fencing_token <= $1";
                changed(self.client.execute(register, &[&token, &self.id]).await.unwrap())?;
            }
            _ => {}
        }
        let n = self.n().await + 1;
        if self.way == Way::RowChecked {
            lease.check()?;
        }
        stand_still();
        if let Way::RowColumn | Way::RowColumnOnce = self.way {
            let comparison = if self.way == Way::RowColumn { "<=" } else { "<" };
            let write = format!(
                "UPDATE counter SET n = $2, fencing_token = $1 WHERE id = $3 AND fencing_token {comparison} $1"
            );
            return changed(self.client.execute(&write, &[&token, &n, &self.id]).await.unwrap());
        }
        let transaction = self.client.transaction().await.unwrap();
        let passed = match self.way {
            Way::RowFence | Way::Forgetful => self.fence.guard(&transaction, lease).await,
            Way::RowOnce => self.fence.guard_once(&transaction, lease).await,
            _ => Ok(()),
        };
        if let Err(why) = passed {
            transaction.rollback().await.unwrap();
            return Err(why.into());
        }
        written(transaction, n, self.id).await.unwrap();
        Ok(())
    }

    /// There is no lease. Whoever stands still keeps all others out until the server ends his session, which it
    /// does here after as long as a lease would last.
    pub(crate) async fn raise_in_transaction(
        &mut self,
        key: &LockKey,
        policy: &LockPolicy,
    ) -> Result<(), NotRaised> {
        if self.client.is_closed() {
            self.client = connected(&self.url).await;
        }
        let limit = format!("SET idle_in_transaction_session_timeout = {}", TTL.as_millis());
        self.client.batch_execute(&limit).await.unwrap();
        let id = self.id;
        let transaction = self.client.transaction().await.unwrap();
        lock_in(&transaction, key, policy).await.unwrap();
        let n: i64 = transaction.query_one(READ, &[&id]).await.unwrap().get(0);
        stand_still();
        // The session that stood still is over: the server says so, or its connection is.
        written(transaction, n + 1, id).await.map_err(|error| match error.code() {
            Some(&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT) => NotRaised::Refused(error.to_string()),
            None if error.is_closed() => NotRaised::Refused(error.to_string()),
            _ => NotRaised::Failed(error.to_string()),
        })
    }
}

async fn written(transaction: Transaction<'_>, n: i64, id: i64) -> Result<(), Error> {
    transaction.execute(WRITE, &[&n, &id]).await?;
    transaction.commit().await
}

async fn connected(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

fn changed(rows: u64) -> Result<(), NotRaised> {
    if rows == 1 { Ok(()) } else { Err(NotRaised::Refused("the column has a later token".to_owned())) }
}
