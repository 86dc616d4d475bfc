//! [`LockError`] as an axum response, and as the error types that handlers return.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::{FromLockError, LockError};

/// When to come back after an outage.
const AFTER_OUTAGE: Duration = Duration::from_secs(1);

impl LockError {
    /// 409 for contention, 503 for an outage or a shutdown, 500 for the rest.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Contended { .. } => StatusCode::CONFLICT,
            Self::Unavailable { .. } | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The refusal as a problem document (RFC 9457) with this status; contention and outages say
    /// when to try again.
    #[must_use]
    pub fn respond(&self, status: StatusCode) -> Response {
        let mut response = (status, Json(self.problem(status))).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(after)));
        }
        response
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Contended { retry_after, .. } => Some(retry_after.unwrap_or(AFTER_OUTAGE)),
            Self::Unavailable { .. } | Self::ShuttingDown => Some(AFTER_OUTAGE),
            _ => None,
        }
    }

    /// What a client may know; the full message goes to the log, not to the caller.
    fn problem(&self, status: StatusCode) -> Value {
        let (title, detail) = match self {
            Self::Contended { .. } => {
                ("Already in progress", "Somebody else is doing this right now; try again later.")
            }
            Self::Unavailable { .. } => {
                ("Lock service unavailable", "Nothing was done, because the lock service does not answer.")
            }
            Self::Lost { .. } => {
                ("Lock lost", "The work was stopped because its lock was lost; it may be done in part.")
            }
            Self::ShuttingDown => {
                ("Shutting down", "Nothing was done, because this server is shutting down.")
            }
            _ => ("Lock failure", "Nothing was done, because the lock could not be asked for."),
        };
        json!({
            "type": format!("urn:lockrt:{}", self.kind()),
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
        })
    }
}

/// Rounded up: a client that comes back too early is refused again.
fn whole_seconds(after: Duration) -> u64 {
    after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0))
}

impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        self.respond(self.status())
    }
}

impl From<LockError> for Response {
    fn from(error: LockError) -> Self {
        error.into_response()
    }
}

impl From<LockError> for StatusCode {
    fn from(error: LockError) -> Self {
        error.status()
    }
}

impl From<LockError> for (StatusCode, String) {
    fn from(error: LockError) -> Self {
        let status = error.status();
        let problem = error.problem(status);
        (status, String::from(problem["detail"].as_str().unwrap_or_default()))
    }
}

impl From<LockError> for (StatusCode, Json<Value>) {
    fn from(error: LockError) -> Self {
        let status = error.status();
        (status, Json(error.problem(status)))
    }
}

impl FromLockError for Response {
    fn from_lock_error(error: LockError) -> Self {
        error.into_response()
    }
}

impl FromLockError for StatusCode {
    fn from_lock_error(error: LockError) -> Self {
        error.status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LockKey;

    fn contended(retry_after: Option<Duration>) -> LockError {
        let key = LockKey::new("mail:jane").unwrap();
        LockError::Contended { name: "n", key, waited: Duration::ZERO, retry_after }
    }

    #[test]
    fn contention_is_409_with_the_holders_time_rounded_up() {
        let response = contended(Some(Duration::from_millis(2_001))).into_response();
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(response.headers()[RETRY_AFTER], "3");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
    }

    #[test]
    fn a_holder_without_an_end_in_sight_has_a_number_all_the_same() {
        let response = contended(Some(Duration::MAX)).into_response();
        assert_eq!(response.headers()[RETRY_AFTER], u64::MAX.to_string());
    }

    #[test]
    fn the_problem_names_its_kind_and_no_key() {
        let problem = contended(None).problem(StatusCode::CONFLICT);
        assert_eq!(problem["type"], "urn:lockrt:contended");
        assert!(!problem.to_string().contains("jane"));
    }

    #[test]
    fn a_shutdown_is_503_and_a_loss_is_500() {
        assert_eq!(LockError::ShuttingDown.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(LockError::NotInstalled.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(LockError::ShuttingDown.into_response().headers().contains_key(RETRY_AFTER));
    }
}
