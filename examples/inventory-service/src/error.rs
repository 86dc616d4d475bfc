//! Why the service did not start, or did not reserve, and what the client is told.

use std::error::Error;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use lockrt::fence::FenceError;
use lockrt::{InvalidKey, LockError};
use serde_json::json;
use tokio_postgres::error::SqlState;

/// Nobody tells the kinds apart: each is a sentence for whoever has started the service.
pub(crate) type StartError = Box<dyn Error + Send + Sync>;

#[derive(Debug)]
pub(crate) enum ReserveError {
    /// The lock refused.
    Lock(LockError),
    /// The fence refused.
    Fence(FenceError),
    /// The database did not do what it was asked for.
    Database(tokio_postgres::Error),
    /// Another run of this order is at work, or died less than a minute ago.
    AtWork,
    UnknownSku,
    TooFew {
        available: i64,
    },
    NoQuantity,
    /// This order has been served with another quantity.
    OtherQuantity {
        quantity: i64,
    },
}

impl From<LockError> for ReserveError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<InvalidKey> for ReserveError {
    fn from(source: InvalidKey) -> Self {
        Self::Lock(LockError::InvalidKey { name: "stock", source })
    }
}

impl From<FenceError> for ReserveError {
    fn from(error: FenceError) -> Self {
        Self::Fence(error)
    }
}

impl From<tokio_postgres::Error> for ReserveError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl IntoResponse for ReserveError {
    fn into_response(self) -> Response {
        let (status, kind, title, detail) = match self {
            // lockrt knows the status, the problem body and `Retry-After` of its own refusals.
            Self::Lock(error) => return error.into_response(),
            Self::Fence(error) => return error.into_response(),
            Self::Database(error) => return database(&error),
            Self::AtWork => {
                let detail = "Another run of this order has not ended. If it is dead, that is known after a minute: send it \
                              again then.";
                (409, "at-work", "Somebody is at it", detail.into())
            }
            Self::UnknownSku => (404, "unknown-sku", "No such shelf", "PUT it to /stock/ first.".into()),
            Self::TooFew { available } => {
                (409, "too-few", "Too few are left", format!("{available} are left: nothing was reserved."))
            }
            Self::NoQuantity => (422, "quantity", "Nothing to reserve", "Reserve at least one.".into()),
            Self::OtherQuantity { quantity } => {
                let detail = format!("This order has reserved {quantity} before: give another one a new id.");
                (422, "other-quantity", "Another order has this id", detail)
            }
        };
        problem(status, kind, title, &detail)
    }
}

fn database(error: &tokio_postgres::Error) -> Response {
    tracing::warn!(%error, "the database did not do what it was asked for");
    // The last line of defence: two have written the same order at once, and one of them went through.
    if error.code() == Some(&SqlState::UNIQUE_VIOLATION) {
        let detail = "Somebody else has served this order meanwhile. Send it again to be told how.";
        return problem(409, "served-meanwhile", "Served by somebody else", detail);
    }
    // No text of PostgreSQL has a NUL, so sending it again helps nobody.
    if error.code() == Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE) {
        return problem(422, "name", "No name", "The shelf or the order has a name that cannot be stored.");
    }
    let detail = "The database gave no answer, or ended the transaction. Send the same order again: if it went through, \
                  that is the answer, and nothing is reserved twice.";
    problem(503, "database", "No answer from the database", detail)
}

fn problem(status: u16, kind: &str, title: &str, detail: &str) -> Response {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = format!("urn:inventory-service:{kind}");
    let body = json!({ "type": kind, "title": title, "status": status, "detail": detail });
    (code, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}
