//! What every lock service must offer.

use std::fmt::Debug;
use std::future::{Future, pending};

use crate::claim::{Attempt, Capabilities, Claim, Released, Renewed};
use crate::error::BackendError;

/// One lock service.
///
/// # Everything is a function of the claim
///
/// No call needs a handle from an earlier one: key and owner token say all. So any connection,
/// thread or process that knows a claim can release it, clean it up and (where
/// [`Capabilities::expiry`] is `PerClaim`) renew it, and every call may be repeated after an
/// unknown outcome.
///
/// # Where it runs
///
/// Every call runs on the keeper's own runtime, never on that of the caller. A constructor only
/// parses; connect at first use. A backend owns its connections. The keeper bounds each call in
/// time by dropping its future, so a call needs no time-out of its own and must survive being
/// dropped at any await.
///
/// # Rules
///
/// * Contention is [`Attempt::Held`], an answer. An error is never contention.
/// * An error says whether the call may have been carried out: see [`BackendError`].
/// * The service's clock alone decides expiry. Nothing is stored without an expiry, but for what
///   the fencing tokens need.
/// * No lock asks for a TTL of zero, or for one too long to be counted. A claim that does is refused
///   before anything is sent, a renewal of it as `Unknown`: a service might free the lock, or keep it
///   for ever.
/// * Fencing tokens of a key rise strictly with every grant, also after a restart, an expiry and a
///   release; repeated acquires of one claim may raise its own token and never lower it.
///
/// # A new backend
///
/// Copy `backend/memory.rs`, the smallest one. Beside the new file there are four places to touch:
/// its line in `backend.rs`, its feature in `lockrt/Cargo.toml`, its URL scheme in `manager.rs`,
/// and a test file in `tests/` that hands it to the conformance suite. A backend outside this
/// repository implements the trait, runs the same suite (feature `conformance`), and goes to
/// [`LockManager::builder`](crate::LockManager::builder).
pub trait Backend: Debug + Send + Sync + 'static {
    /// Name, fence strength, shortest TTL, expiry, and what waiting claims may expect.
    fn capabilities(&self) -> &Capabilities;

    /// One attempt to take the lock; never waits for a holder.
    ///
    /// Idempotent: the same claim twice is one grant, whose TTL starts again; the newest answer's
    /// fencing token counts and is never smaller. A claim that does not wait leaves nothing behind
    /// when it is `Held`; a waiting one may take a queue place.
    ///
    /// # Errors
    ///
    /// No answer. The keeper repeats the attempt, or cleans up behind it.
    ///
    /// # Cancellation
    ///
    /// The attempt may still be carried out later; the keeper counts it as in doubt.
    fn try_acquire(&self, claim: &Claim) -> impl Future<Output = Result<Attempt, BackendError>> + Send;

    /// Gives each claim its TTL again, counted from now; it does not add to what is left.
    ///
    /// One answer per claim, in order: renewing 100,000 leases must be a few hundred calls. A
    /// claim that no longer holds its lock is `Gone` and gets nothing. A broken connection is
    /// `Unknown` for each claim.
    ///
    /// # Cancellation
    ///
    /// Counts as `Unknown` for each claim.
    fn renew(&self, claims: &[&Claim]) -> impl Future<Output = Vec<Renewed>> + Send;

    /// Frees the grant or the queue place that the claim may have, and spares everybody else's.
    ///
    /// # Errors
    ///
    /// No answer. The keeper repeats the release.
    ///
    /// # Cancellation
    ///
    /// The release may still be carried out later, which is harmless.
    fn release(&self, claim: &Claim) -> impl Future<Output = Result<Released, BackendError>> + Send;

    /// Resolves when the claim's key may be free. A hint: early, late or never are all legal.
    ///
    /// One that [wakes](Capabilities::wakes) looks at the key once more after it has begun to
    /// listen, else a release between the refused attempt and this call goes unheard.
    ///
    /// # Cancellation
    ///
    /// Dropping it has no effect.
    fn freed(&self, claim: &Claim) -> impl Future<Output = ()> + Send {
        let _ = claim;
        pending()
    }
}
