//! What no honest client does to a lock service.

use lockrt::{BackendError, Claim};
use redis::Client;
use tokio_postgres::NoTls;

/// A way past the backend to the lock service behind it.
#[derive(Debug)]
pub(super) enum Raw {
    Redis(Client),
    /// By its URL.
    Postgres(String),
}

impl Raw {
    /// The service at a URL of either kind.
    pub(super) fn at(url: &str) -> Self {
        if url.starts_with("redis:") {
            Self::Redis(Client::open(url).expect("the URL is well-formed"))
        } else {
            Self::Postgres(url.to_owned())
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
            Self::Postgres(url) => {
                const SEIZE: &str = "UPDATE lockrt_locks SET owner = $2
                    WHERE key = $1 AND expires_at > clock_timestamp()";
                execute(url, SEIZE, [key, &owner]).await
            }
        }
    }

    /// Has the lock of `claim` never end by itself.
    pub(super) async fn perpetuate(&self, claim: &Claim) -> Result<(), BackendError> {
        let (key, owner) = (claim.key().as_str(), claim.owner().wire());
        match self {
            Self::Redis(client) => carry_out(client, redis::cmd("PERSIST").arg(key)).await,
            Self::Postgres(url) => {
                const PERPETUATE: &str = "UPDATE lockrt_locks SET expires_at = 'infinity'
                    WHERE key = $1 AND owner = $2";
                execute(url, PERPETUATE, [key, &owner]).await
            }
        }
    }
}

async fn carry_out(client: &Client, command: &redis::Cmd) -> Result<(), BackendError> {
    let mut connection = client.get_multiplexed_async_connection().await.map_err(failed)?;
    command.query_async(&mut connection).await.map_err(failed)
}

async fn execute(url: &str, statement: &str, [key, owner]: [&str; 2]) -> Result<(), BackendError> {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(driver);
    client.execute(statement, &[&key, &owner]).await.map(drop).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> BackendError {
    BackendError::unknown(error.to_string())
}
