//! [`LockError`] and [`FenceError`] as axum responses, and as the types that handlers return.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::error::LockError;
use crate::fence::FenceError;
use crate::locked::Locked;
use crate::refusal::FromLockError;
use crate::web::problem::{PROBLEM_JSON, Problem};

impl LockError {
    /// 409 for contention, 503 for an outage or a shutdown, 500 for the rest.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        status(&Problem::from(self))
    }

    /// The refusal as a problem document (RFC 9457) with a status of your choice; contention and
    /// outages say in `Retry-After` when to try again.
    ///
    /// ```
    /// use axum::http::StatusCode;
    /// use lockrt::LockError;
    ///
    /// assert_eq!(LockError::ShuttingDown.respond(StatusCode::LOCKED).status(), 423);
    /// ```
    #[must_use]
    pub fn respond(&self, status: StatusCode) -> Response {
        respond(&Problem::from(self), status)
    }
}

impl FenceError {
    /// 409 where the fence refused, 503 where the store did not answer, 500 for the rest.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        status(&Problem::from(self))
    }

    /// The refusal as a problem document (RFC 9457) with a status of your choice. One that came too
    /// late is told both tokens.
    #[must_use]
    pub fn respond(&self, status: StatusCode) -> Response {
        respond(&Problem::from(self), status)
    }
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn respond(problem: &Problem, status: StatusCode) -> Response {
    let mut response = (status, Json(problem.document(status.as_u16()))).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if let Some(seconds) = problem.retry_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        self.respond(self.status())
    }
}

impl IntoResponse for FenceError {
    fn into_response(self) -> Response {
        self.respond(self.status())
    }
}

impl From<FenceError> for Response {
    fn from(error: FenceError) -> Self {
        error.into_response()
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
        (error.status(), String::from(Problem::from(&error).detail))
    }
}

impl From<LockError> for (StatusCode, Json<Value>) {
    fn from(error: LockError) -> Self {
        let (status, problem) = (error.status(), Problem::from(&error));
        (status, Json(problem.document(status.as_u16())))
    }
}

macro_rules! bare_return_types {
    ($($type:ty),+ $(,)?) => {$(
        impl FromLockError for $type {
            fn from_lock_error(error: LockError) -> Self {
                error.into()
            }
        }
    )+};
}

bare_return_types!(Response, StatusCode, (StatusCode, String), (StatusCode, Json<Value>));

impl<T: IntoResponse> IntoResponse for Locked<T> {
    fn into_response(self) -> Response {
        self.0.map_or_else(IntoResponse::into_response, IntoResponse::into_response)
    }
}
