//! Why a route did not do its work, and what the client is told.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use lockrt::LockError;
use serde_json::json;

use crate::store::Stale;

#[derive(Debug)]
pub(crate) enum QuoteError {
    /// The lock refused. One `From` is all that a service's own error type needs.
    Lock(LockError),
    /// The store refused.
    Stale(Stale),
    /// Nobody has calculated this quote yet.
    Unknown,
}

impl From<LockError> for QuoteError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<Stale> for QuoteError {
    fn from(stale: Stale) -> Self {
        Self::Stale(stale)
    }
}

impl IntoResponse for QuoteError {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            // lockrt knows the status, the problem body and `Retry-After` of its own refusals.
            Self::Lock(error) => return error.into_response(),
            Self::Stale(Stale { brought, stored }) => (
                StatusCode::CONFLICT,
                json!({
                    "type": "urn:quote-service:stale-write",
                    "title": "The write came too late",
                    "status": 409,
                    "detail": format!("The lease with fencing token {brought} was over, and the one with {stored} has written since: nothing was changed. Read the quote again."),
                    "brought": brought,
                    "stored": stored,
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
