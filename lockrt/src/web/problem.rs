//! What a client may know of a refusal, whatever the framework. The full message goes to the log.

use std::time::Duration;

use crate::error::LockError;

/// When to come back after an outage, and where nobody knows how long the holder will take.
const LATER: Duration = Duration::from_secs(1);

/// When to try again, if that may help.
pub(super) fn retry_after(error: &LockError) -> Option<Duration> {
    match error {
        LockError::Contended { retry_after, .. } => Some(retry_after.unwrap_or(LATER)),
        LockError::Unavailable { .. } | LockError::ShuttingDown => Some(LATER),
        _ => None,
    }
}

/// One sentence that names neither lock nor key.
pub(super) fn detail(error: &LockError) -> &'static str {
    match error {
        LockError::Contended { .. } => "Somebody else is doing this right now; try again later.",
        LockError::Unavailable { .. } => "Nothing was done, because the lock service does not answer.",
        LockError::Lost { .. } => "The work was stopped because its lock was lost; it may be done in part.",
        LockError::Released { .. } => {
            "The work was stopped because its lock was given back; it may be done in part."
        }
        LockError::ShuttingDown => "Nothing was done, because this server is shutting down.",
        _ => "Nothing was done, because the lock could not be asked for.",
    }
}

#[cfg(any(feature = "actix-web", feature = "axum"))]
mod document {
    use serde_json::{Value, json};

    use super::{LockError, detail, retry_after};

    /// The media type of [`problem`].
    pub(in crate::web) const PROBLEM_JSON: &str = "application/problem+json";

    /// 409 for contention, 503 for an outage or a shutdown, 500 for the rest.
    pub(in crate::web) fn status(error: &LockError) -> u16 {
        match error {
            LockError::Contended { .. } => 409,
            LockError::Unavailable { .. } | LockError::ShuttingDown => 503,
            _ => 500,
        }
    }

    /// The refusal as a problem document (RFC 9457).
    pub(in crate::web) fn problem(error: &LockError, status: u16) -> Value {
        let title = match error {
            LockError::Contended { .. } => "Already in progress",
            LockError::Unavailable { .. } => "Lock service unavailable",
            LockError::Lost { .. } | LockError::Released { .. } => "Lock lost",
            LockError::ShuttingDown => "Shutting down",
            _ => "Lock failure",
        };
        json!({
            "type": format!("urn:lockrt:{}", error.kind()),
            "title": title,
            "status": status,
            "detail": detail(error),
        })
    }

    /// The value of `Retry-After`, rounded up: a client that comes too early is refused again.
    pub(in crate::web) fn retry_seconds(error: &LockError) -> Option<u64> {
        retry_after(error).map(|after| after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)))
    }
}

#[cfg(any(feature = "actix-web", feature = "axum"))]
pub(super) use document::{PROBLEM_JSON, problem, retry_seconds, status};

#[cfg(test)]
#[cfg(any(feature = "actix-web", feature = "axum"))]
mod tests {
    use super::*;
    use crate::error::{BackendError, LossReason};
    use crate::key::{InvalidKey, LockKey};

    fn contended(retry_after: Option<Duration>) -> LockError {
        let key = LockKey::new("mail:jane").unwrap();
        LockError::Contended { name: "secret_name", key, waited: Duration::ZERO, retry_after }
    }

    #[test]
    fn a_client_waits_for_whole_seconds_and_never_too_short() {
        let told = |ms| retry_seconds(&contended(Some(Duration::from_millis(ms))));
        assert_eq!(told(1), Some(1));
        assert_eq!(told(2_000), Some(2));
        assert_eq!(told(2_001), Some(3));
        assert_eq!(retry_seconds(&contended(None)), Some(1));
        assert_eq!(retry_seconds(&contended(Some(Duration::MAX))), Some(u64::MAX), "no end in sight");
        assert_eq!(retry_seconds(&LockError::NotInstalled), None);
    }

    #[test]
    fn contention_is_409_an_outage_503_and_the_rest_500() {
        let (name, key) = ("secret_name", LockKey::new("mail:jane").unwrap());
        let away = LockError::Unavailable { name, key: key.clone(), source: BackendError::unknown("silent") };
        let lost = LockError::Lost { name, key, reason: LossReason::Expired };
        let invalid = LockError::InvalidKey { name, source: InvalidKey::EmptyPart };
        let statuses =
            [contended(None), away, LockError::ShuttingDown, lost, invalid, LockError::NotInstalled];
        assert_eq!(statuses.each_ref().map(status), [409, 503, 503, 500, 500, 500]);
    }

    #[test]
    fn the_problem_names_its_kind_and_neither_lock_nor_key() {
        let problem = problem(&contended(None), 409);
        assert_eq!(problem["type"], "urn:lockrt:contended");
        assert_eq!(problem["status"], 409);
        assert!(!problem.to_string().contains("jane") && !problem.to_string().contains("secret_name"));
    }
}
