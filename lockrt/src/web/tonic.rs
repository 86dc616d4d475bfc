//! [`LockError`] and [`FenceError`] as gRPC statuses.

use std::sync::Arc;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::error::LockError;
use crate::fence::FenceError;
use crate::web::problem::Problem;

/// `ABORTED` for contention, `UNAVAILABLE` for an outage or a shutdown, `UNKNOWN` for a lost lease
/// and `INTERNAL` for the rest. Contention and outages carry a `RetryInfo` detail that says when to
/// try again. The status keeps the refusal as its source, which stays in this process.
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        let mut status = told(code(&error), &Problem::from(&error));
        status.set_source(Arc::new(error));
        status
    }
}

/// `FAILED_PRECONDITION` for a holder that came too late, `ALREADY_EXISTS` for one that has written
/// before, `UNAVAILABLE` with a `RetryInfo` detail where the store did not answer, and `INTERNAL` for the
/// rest. The status keeps the refusal as its source, which stays in this process.
impl From<FenceError> for Status {
    fn from(error: FenceError) -> Self {
        let code = match &error {
            // Not `ABORTED`: the same request would be refused again.
            FenceError::Stale { .. } => Code::FailedPrecondition,
            FenceError::Repeated { .. } => Code::AlreadyExists,
            FenceError::Unavailable { .. } => Code::Unavailable,
            _ => Code::Internal,
        };
        let mut status = told(code, &Problem::from(&error));
        status.set_source(Arc::new(error));
        status
    }
}

fn told(code: Code, problem: &Problem) -> Status {
    match problem.retry_after {
        Some(after) => {
            Status::with_error_details(code, problem.detail, ErrorDetails::with_retry_info(Some(after)))
        }
        None => Status::new(code, problem.detail),
    }
}

fn code(error: &LockError) -> Code {
    match error {
        LockError::Contended { .. } => Code::Aborted,
        LockError::Unavailable { .. } | LockError::ShuttingDown => Code::Unavailable,
        LockError::Lost { .. } => Code::Unknown,
        _ => Code::Internal,
    }
}
