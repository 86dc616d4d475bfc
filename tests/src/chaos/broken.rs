//! Workers that are broken on purpose, to see each checker turn red.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockrt::{Attempt, Backend, BackendError, Capabilities, Claim, FencingToken, Released, Renewed};

use super::raw::Raw;

/// How a worker is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// It takes every refusal for a grant.
    NoLock,
    /// It says that it has renewed, and does not.
    NoRenewal,
    /// It says that it has released, and of every ten times once it does not.
    LostRelease,
    /// It repeats each release, whoever holds the lock by then.
    ReleaseOfOthers,
    /// It counts its lease from a moment after the request left.
    LateDeadline,
    /// It numbers its own grants.
    OwnTokens,
    /// Its store takes every write for one of the newest holder.
    BlindStore,
    /// Its locks never expire, and it does not free them.
    EndlessLocks,
}

impl Break {
    /// All of them.
    pub(super) const ALL: [Self; 8] = [
        Self::NoLock,
        Self::NoRenewal,
        Self::LostRelease,
        Self::ReleaseOfOthers,
        Self::LateDeadline,
        Self::OwnTokens,
        Self::BlindStore,
        Self::EndlessLocks,
    ];

    /// Its name in arguments.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoLock => "no-lock",
            Self::NoRenewal => "no-renewal",
            Self::LostRelease => "lost-release",
            Self::ReleaseOfOthers => "release-of-others",
            Self::LateDeadline => "late-deadline",
            Self::OwnTokens => "own-tokens",
            Self::BlindStore => "blind-store",
            Self::EndlessLocks => "endless-locks",
        }
    }
}

/// How much of its ttl a worker with a late deadline does not tell the server.
const LATE: Duration = Duration::from_millis(440);

/// A backend whose client is broken, or not.
#[derive(Debug)]
pub(super) struct Broken<B> {
    backend: B,
    raw: Raw,
    how: Option<Break>,
    /// How many grants it has numbered, or how many releases it has seen.
    number: AtomicU64,
}

impl<B: Backend> Broken<B> {
    pub(super) fn new(backend: B, raw: Raw, how: Option<Break>) -> Self {
        Self { backend, raw, how, number: AtomicU64::new(1) }
    }

    /// The claim that the server is told of.
    fn told(&self, claim: &Claim) -> Claim {
        match self.how {
            Some(Break::LateDeadline) => claim.with_ttl(claim.ttl().saturating_sub(LATE)),
            _ => claim.clone(),
        }
    }

    fn number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// A grant that no server has numbered.
    fn granted(&self) -> Attempt {
        Attempt::Granted { fencing: Some(FencingToken::new(self.number())) }
    }

    /// Whether the server is not told of this release.
    fn keeps(&self) -> bool {
        match self.how {
            Some(Break::EndlessLocks) => true,
            Some(Break::LostRelease) => self.number().is_multiple_of(10),
            _ => false,
        }
    }
}

impl<B: Backend> Backend for Broken<B> {
    fn capabilities(&self) -> &Capabilities {
        self.backend.capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        let attempt = self.backend.try_acquire(&self.told(claim)).await?;
        match (attempt, self.how) {
            (Attempt::Held { .. }, Some(Break::NoLock))
            | (Attempt::Granted { .. }, Some(Break::OwnTokens)) => Ok(self.granted()),
            (Attempt::Granted { .. }, Some(Break::EndlessLocks)) => {
                self.raw.perpetuate(claim).await?;
                Ok(attempt)
            }
            _ => Ok(attempt),
        }
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        if self.how == Some(Break::NoRenewal) {
            return claims.iter().map(|_| Renewed::Extended).collect();
        }
        let told: Vec<_> = claims.iter().map(|claim| self.told(claim)).collect();
        self.backend.renew(&told.iter().collect::<Vec<_>>()).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        if self.keeps() {
            return Ok(Released::Freed);
        }
        let released = self.backend.release(claim).await?;
        if self.how == Some(Break::ReleaseOfOthers) {
            self.raw.seize(claim).await?;
            self.backend.release(claim).await?;
        }
        Ok(released)
    }

    async fn freed(&self, claim: &Claim) {
        self.backend.freed(claim).await;
    }
}
