//! [`LockError`] as an actix-web error, and as an `HttpResponse`.

use actix_web::body::{BoxBody, EitherBody};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, Responder, ResponseError};

use crate::error::LockError;
use crate::locked::Locked;
use crate::refusal::FromLockError;
use crate::web::problem::{self, PROBLEM_JSON};

/// A problem document (RFC 9457) with 409 for contention, 503 for an outage or a shutdown, 500 for
/// the rest; contention and outages say in `Retry-After` when to try again.
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(problem::status(self)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let status = self.status_code();
        let mut response = HttpResponse::build(status);
        response.insert_header((CONTENT_TYPE, PROBLEM_JSON));
        if let Some(seconds) = problem::retry_seconds(self) {
            response.insert_header((RETRY_AFTER, seconds));
        }
        response.body(problem::problem(self, status.as_u16()).to_string())
    }
}

impl From<LockError> for HttpResponse {
    fn from(error: LockError) -> Self {
        error.error_response()
    }
}

impl FromLockError for HttpResponse {
    fn from_lock_error(error: LockError) -> Self {
        error.error_response()
    }
}

impl<T: Responder> Responder for Locked<T> {
    type Body = EitherBody<T::Body, BoxBody>;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<Self::Body> {
        match self.0 {
            Ok(value) => value.respond_to(request).map_into_left_body(),
            Err(refused) => refused.error_response().map_into_right_body(),
        }
    }
}
