//! Why a route did not do its work, and what the client is told.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use lockrt::LockError;
use lockrt::fence::FenceError;
use serde_json::json;

#[derive(Debug)]
pub(crate) enum QuoteError {
    /// The lock refused. One `From` is all that a service's own error type needs.
    Lock(LockError),
    /// The store refused.
    Fence(FenceError),
    /// Nobody has calculated this quote yet.
    Unknown,
}

impl From<LockError> for QuoteError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<FenceError> for QuoteError {
    fn from(error: FenceError) -> Self {
        Self::Fence(error)
    }
}

impl IntoResponse for QuoteError {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            // lockrt knows the status, the problem body and `Retry-After` of its own refusals.
            Self::Lock(error) => return error.into_response(),
            Self::Fence(FenceError::Stale { offered, stored, .. }) => (
                StatusCode::CONFLICT,
                json!({
                    "type": "urn:quote-service:stale-write",
                    "title": "The write came too late",
                    "status": 409,
                    "detail": format!("The lease with fencing token {offered} was over, and the one with {stored} has come since: nothing was changed. Read the quote again."),
                    "brought": offered.get(),
                    "stored": stored.get(),
                }),
            ),
            Self::Fence(error) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                json!({
                    "type": "urn:quote-service:store",
                    "title": "The store cannot compare tokens",
                    "status": 500,
                    "detail": error.to_string(),
                }),
            ),
            Self::Unknown => (
                StatusCode::NOT_FOUND,
                json!({
                    "type": "urn:quote-service:unknown-quote",
                    "title": "No such quote",
                    "status": 404,
                    "detail": "Nobody has calculated this quote on this instance yet: POST to its /recalculate first.",
                }),
            ),
        };
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}
