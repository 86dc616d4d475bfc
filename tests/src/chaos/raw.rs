//! What no honest client does to a lock service.

use lockrt::{BackendError, Claim};
use redis::Client;
use tokio::sync::Mutex;
use tokio_postgres::NoTls;

/// A way past the backend to the lock service behind it.
#[derive(Debug)]
pub(super) enum Raw {
    Redis(Client),
    Postgres(Session),
}

impl Raw {
    /// The service at a URL of either kind.
    pub(super) fn at(url: &str) -> Self {
        if url.starts_with("redis:") {
            Self::Redis(Client::open(url).expect("the URL is well-formed"))
        } else {
            Self::Postgres(Session { url: url.to_owned(), client: Mutex::default() })
        }
    }

    /// Gives the lock of whoever holds it to `claim`.
    pub(super) async fn seize(&self, claim: &Claim) -> Result<(), BackendError> {
        let (key, owner) = (claim.key().as_str(), claim.owner().wire());
        match self {
            Self::Redis(client) => {
                let mut set = redis::cmd("SET");
                carry_out(client, set.arg(key).arg(owner).arg("XX").arg("KEEPTTL")).await
            }
            Self::Postgres(session) => {
                const SEIZE: &str = "UPDATE lockrt_locks SET owner = $2
                    WHERE key = $1 AND expires_at > clock_timestamp()";
                session.execute(SEIZE, [key, &owner]).await
            }
        }
    }

    /// Has the lock of `claim` never end by itself.
    pub(super) async fn perpetuate(&self, claim: &Claim) -> Result<(), BackendError> {
        let (key, owner) = (claim.key().as_str(), claim.owner().wire());
        match self {
            Self::Redis(client) => carry_out(client, redis::cmd("PERSIST").arg(key)).await,
            Self::Postgres(session) => {
                const PERPETUATE: &str = "UPDATE lockrt_locks SET expires_at = 'infinity'
                    WHERE key = $1 AND owner = $2";
                session.execute(PERPETUATE, [key, &owner]).await
            }
        }
    }
}

/// A connection to PostgreSQL, opened when it is needed.
#[derive(Debug)]
pub(super) struct Session {
    url: String,
    client: Mutex<Option<tokio_postgres::Client>>,
}

impl Session {
    async fn execute(&self, statement: &str, [key, owner]: [&str; 2]) -> Result<(), BackendError> {
        let mut client = self.client.lock().await;
        let open = if let Some(open) = client.take().filter(|client| !client.is_closed()) {
            open
        } else {
            let (opened, driver) = tokio_postgres::connect(&self.url, NoTls).await.map_err(failed)?;
            tokio::spawn(driver);
            opened
        };
        let executed = client.insert(open).execute(statement, &[&key, &owner]).await;
        executed.map(drop).map_err(failed)
    }
}

async fn carry_out(client: &Client, command: &redis::Cmd) -> Result<(), BackendError> {
    let mut connection = client.get_multiplexed_async_connection().await.map_err(failed)?;
    command.query_async(&mut connection).await.map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> BackendError {
    BackendError::unknown(error.to_string())
}
