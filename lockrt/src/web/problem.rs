//! What a client may know of a refusal, whatever the framework. The full message goes to the log.

use std::time::Duration;

use crate::error::LockError;
use crate::fence::FenceError;

/// When to come back after an outage, and where nobody knows how long the holder will take.
const LATER: Duration = Duration::from_secs(1);

/// One refusal, in words that name neither lock, key nor resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Says which refusal it is; the end of a URN.
    kind: String,
    title: &'static str,
    pub(super) status: u16,
    pub(super) detail: &'static str,
    /// When to try again, if that may help.
    pub(super) retry_after: Option<Duration>,
    /// The tokens of the refused holder and of the one that the store has seen.
    tokens: Option<[u64; 2]>,
}

impl From<&LockError> for Problem {
    fn from(error: &LockError) -> Self {
        let (status, title, detail) = match error {
            LockError::Contended { .. } => {
                (409, "Already in progress", "Somebody else is doing this right now; try again later.")
            }
            LockError::Unavailable { .. } => (
                503,
                "Lock service unavailable",
                "Nothing was done, because the lock service does not answer.",
            ),
            LockError::Lost { .. } => {
                (500, "Lock lost", "The work was stopped because its lock was lost; it may be done in part.")
            }
            LockError::Released { .. } => (
                500,
                "Lock lost",
                "The work was stopped because its lock was given back; it may be done in part.",
            ),
            LockError::ShuttingDown => {
                (503, "Shutting down", "Nothing was done, because this server is shutting down.")
            }
            _ => (500, "Lock failure", "Nothing was done, because the lock could not be asked for."),
        };
        let retry_after = match error {
            LockError::Contended { retry_after, .. } => Some(retry_after.unwrap_or(LATER)),
            LockError::Unavailable { .. } | LockError::ShuttingDown => Some(LATER),
            _ => None,
        };
        Self { kind: error.kind().to_owned(), title, status, detail, retry_after, tokens: None }
    }
}

impl From<&FenceError> for Problem {
    fn from(error: &FenceError) -> Self {
        let (status, title, detail) = match error {
            FenceError::Stale { .. } => (
                409,
                "Too late",
                "Nothing was written, because somebody else has had the lock since; begin again with what is \
                 stored now.",
            ),
            FenceError::Repeated { .. } => {
                (409, "Already written", "Nothing was written, because this holder has written before.")
            }
            FenceError::Unavailable { .. } if error.outcome() == crate::error::Outcome::Unknown => {
                (503, "Store unavailable", "The store does not answer; the write may have been done.")
            }
            FenceError::Unavailable { .. } => {
                (503, "Store unavailable", "Nothing was written, because the store does not answer.")
            }
            _ => (500, "Fence failure", "Nothing was written, because it could not be fenced."),
        };
        let retry_after = matches!(error, FenceError::Unavailable { .. }).then_some(LATER);
        let tokens =
            error.offered().zip(error.stored()).map(|(offered, stored)| [offered.get(), stored.get()]);
        Self { kind: format!("fence:{}", error.kind()), title, status, detail, retry_after, tokens }
    }
}

#[cfg(any(feature = "actix-web", feature = "axum", feature = "tower"))]
mod document {
    use serde_json::{Value, json};

    use super::Problem;

    /// The media type of [`Problem::document`].
    pub(in crate::web) const PROBLEM_JSON: &str = "application/problem+json";

    impl Problem {
        /// The refusal as a problem document (RFC 9457).
        pub(in crate::web) fn document(&self, status: u16) -> Value {
            let mut document = json!({
                "type": format!("urn:lockrt:{}", self.kind),
                "title": self.title,
                "status": status,
                "detail": self.detail,
            });
            if let Some([offered, stored]) = self.tokens {
                // As text: a reader in JavaScript would round them.
                document["offered"] = offered.to_string().into();
                document["stored"] = stored.to_string().into();
            }
            document
        }

        /// The value of `Retry-After`, rounded up: a client that comes too early is refused again.
        pub(in crate::web) fn retry_seconds(&self) -> Option<u64> {
            let after = self.retry_after?;
            Some(after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)))
        }
    }
}

#[cfg(any(feature = "actix-web", feature = "axum", feature = "tower"))]
pub(super) use document::PROBLEM_JSON;

#[cfg(test)]
#[cfg(any(feature = "actix-web", feature = "axum", feature = "tower"))]
mod tests {
    use super::*;
    use crate::error::{BackendError, LossReason};
    use crate::fence::Fence;
    use crate::key::{InvalidKey, LockKey};
    use crate::token::FencingToken;

    fn contended(retry_after: Option<Duration>) -> LockError {
        let key = LockKey::new("mail:jane").unwrap();
        LockError::Contended { name: "secret_name", key, waited: Duration::ZERO, retry_after }
    }

    /// What a fence says to an older token, to a second write, and to a lease without a token.
    fn refused() -> [FenceError; 3] {
        let fence = Fence::new();
        let (old, new) = (FencingToken::new(33), FencingToken::new(9_007_199_254_740_993));
        fence.write_once("mail:jane", new, || ()).unwrap();
        [
            fence.write("mail:jane", old, || ()).unwrap_err(),
            fence.write_once("mail:jane", new, || ()).unwrap_err(),
            fence.register("mail:jane", None).unwrap_err(),
        ]
    }

    #[test]
    fn a_client_waits_for_whole_seconds_and_never_too_short() {
        let seconds = |error: &LockError| Problem::from(error).retry_seconds();
        let told = |ms| seconds(&contended(Some(Duration::from_millis(ms))));
        assert_eq!(told(1), Some(1));
        assert_eq!(told(2_000), Some(2));
        assert_eq!(told(2_001), Some(3));
        assert_eq!(seconds(&contended(None)), Some(1));
        assert_eq!(seconds(&contended(Some(Duration::MAX))), Some(u64::MAX), "no end in sight");
        assert_eq!(seconds(&LockError::NotInstalled), None);
    }

    #[test]
    fn contention_is_409_an_outage_503_and_the_rest_500() {
        let (name, key) = ("secret_name", LockKey::new("mail:jane").unwrap());
        let away = LockError::Unavailable { name, key: key.clone(), source: BackendError::unknown("silent") };
        let lost = LockError::Lost { name, key, reason: LossReason::Expired };
        let invalid = LockError::InvalidKey { name, source: InvalidKey::EmptyPart };
        let refusals =
            [contended(None), away, LockError::ShuttingDown, lost, invalid, LockError::NotInstalled];
        let statuses = refusals.each_ref().map(|refusal| Problem::from(refusal).status);
        assert_eq!(statuses, [409, 503, 503, 500, 500, 500]);
    }

    #[test]
    fn a_fence_at_work_is_409_and_what_the_program_got_wrong_is_500() {
        let problems = refused().each_ref().map(Problem::from);
        assert_eq!(problems.each_ref().map(|problem| problem.status), [409, 409, 500]);
        // Trying again with the same token would be refused again.
        assert!(problems.iter().all(|problem| problem.retry_after.is_none()));
    }

    #[test]
    fn the_problem_names_its_kind_and_neither_lock_nor_key_nor_resource() {
        let problem = Problem::from(&contended(None)).document(409);
        assert_eq!(problem["type"], "urn:lockrt:contended");
        assert_eq!(problem["status"], 409);
        assert!(!problem.to_string().contains("jane") && !problem.to_string().contains("secret_name"));
        for refusal in refused() {
            let problem = Problem::from(&refusal).document(409);
            assert_eq!(problem["type"], format!("urn:lockrt:fence:{}", refusal.kind()));
            assert!(!problem.to_string().contains("jane"));
        }
    }

    #[test]
    fn whoever_came_too_late_is_told_both_tokens_to_the_last_digit() {
        let problem = Problem::from(&refused()[0]).document(409);
        assert_eq!(problem["offered"], "33");
        assert_eq!(problem["stored"], "9007199254740993");
    }
}
