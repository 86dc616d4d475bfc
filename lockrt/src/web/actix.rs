//! [`LockError`] and [`FenceError`] as actix-web errors, and as an `HttpResponse`.

use actix_web::body::{BoxBody, EitherBody};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, Responder, ResponseError};

use crate::error::LockError;
use crate::fence::FenceError;
use crate::locked::Locked;
use crate::refusal::FromLockError;
use crate::web::problem::{PROBLEM_JSON, Problem};

/// A problem document (RFC 9457) with 409 for contention, 503 for an outage or a shutdown, 500 for
/// the rest; contention and outages say in `Retry-After` when to try again.
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        status(&Problem::from(self))
    }

    fn error_response(&self) -> HttpResponse {
        respond(&Problem::from(self))
    }
}

/// A problem document (RFC 9457) with 409 where the fence refused, 503 where the store did not answer,
/// 500 for the rest. One that came too late is told both tokens.
impl ResponseError for FenceError {
    fn status_code(&self) -> StatusCode {
        status(&Problem::from(self))
    }

    fn error_response(&self) -> HttpResponse {
        respond(&Problem::from(self))
    }
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn respond(problem: &Problem) -> HttpResponse {
    let status = status(problem);
    let mut response = HttpResponse::build(status);
    response.insert_header((CONTENT_TYPE, PROBLEM_JSON));
    if let Some(seconds) = problem.retry_seconds() {
        response.insert_header((RETRY_AFTER, seconds));
    }
    response.body(problem.document(status.as_u16()).to_string())
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
