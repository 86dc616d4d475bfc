//! Workers that are broken on purpose, to see each checker turn red.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, FencingToken, Redis, Released, Renewed, SetupError,
};
use redis::Client;

/// How a worker is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// It deletes the key at release, whoever holds it.
    ReleaseByDel,
    /// It counts its lease from a moment after the request left.
    LateDeadline,
    /// It numbers its own grants.
    OwnTokens,
    /// Its store takes every write for one of the newest holder.
    BlindStore,
    /// Its keys never expire, and it does not delete them.
    EndlessKeys,
}

impl Break {
    /// All of them.
    pub(super) const ALL: [Self; 5] =
        [Self::ReleaseByDel, Self::LateDeadline, Self::OwnTokens, Self::BlindStore, Self::EndlessKeys];

    /// Its name in arguments.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReleaseByDel => "release-by-del",
            Self::LateDeadline => "late-deadline",
            Self::OwnTokens => "own-tokens",
            Self::BlindStore => "blind-store",
            Self::EndlessKeys => "endless-keys",
        }
    }
}

/// How much of its ttl a worker with a late deadline does not tell the server.
const LATE: Duration = Duration::from_millis(440);

/// Redis behind a client that is broken, or not.
#[derive(Debug)]
pub(super) struct Broken {
    redis: Redis,
    /// For calls that no honest client makes.
    raw: Client,
    how: Option<Break>,
    grants: AtomicU64,
}

impl Broken {
    pub(super) fn new(url: &str, how: Option<Break>) -> Result<Self, SetupError> {
        let raw = Client::open(url).expect("the URL is well-formed");
        Ok(Self { redis: Redis::from_url(url)?, raw, how, grants: AtomicU64::new(1) })
    }

    /// The claim that the server is told of.
    fn told(&self, claim: &Claim) -> Claim {
        match self.how {
            Some(Break::LateDeadline) => claim.with_ttl(claim.ttl().saturating_sub(LATE)),
            _ => claim.clone(),
        }
    }

    async fn raw(&self, command: &str, claim: &Claim) -> Result<(), BackendError> {
        let failed = |error: redis::RedisError| BackendError::unknown(error.to_string());
        let mut raw = self.raw.get_multiplexed_async_connection().await.map_err(failed)?;
        redis::cmd(command).arg(claim.key().as_str()).query_async(&mut raw).await.map_err(failed)
    }
}

impl Backend for Broken {
    fn capabilities(&self) -> &Capabilities {
        self.redis.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let attempt = self.redis.try_acquire(&self.told(claim)).await?;
        match (attempt, self.how) {
            (Attempt::Granted { .. }, Some(Break::OwnTokens)) => {
                let number = self.grants.fetch_add(1, Ordering::Relaxed);
                Ok(Attempt::Granted { fencing: Some(FencingToken::new(number)) })
            }
            (Attempt::Granted { .. }, Some(Break::EndlessKeys)) => {
                self.raw("PERSIST", claim).await?;
                Ok(attempt)
            }
            _ => Ok(attempt),
        }
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let told: Vec<_> = claims.iter().map(|claim| self.told(claim)).collect();
        self.redis.renew(&told.iter().collect::<Vec<_>>()).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        match self.how {
            Some(Break::ReleaseByDel) => {
                self.raw("DEL", claim).await?;
                Ok(Released::Freed)
            }
            Some(Break::EndlessKeys) => Ok(Released::Freed),
            _ => self.redis.release(claim).await,
        }
    }

    async fn freed(&self, claim: &Claim) {
        self.redis.freed(claim).await;
    }
}
