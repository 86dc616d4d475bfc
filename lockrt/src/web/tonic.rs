//! [`LockError`] as a gRPC status.

use std::sync::Arc;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::error::LockError;
use crate::web::problem;

/// `ABORTED` for contention, `UNAVAILABLE` for an outage or a shutdown, `UNKNOWN` for a lost lease
/// and `INTERNAL` for the rest. Contention and outages carry a `RetryInfo` detail that says when to
/// try again. The status keeps the refusal as its source, which stays in this process.
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        let (code, message) = (code(&error), problem::detail(&error));
        let mut status = match problem::retry_after(&error) {
            Some(after) => {
                Status::with_error_details(code, message, ErrorDetails::with_retry_info(Some(after)))
            }
            None => Status::new(code, message),
        };
        status.set_source(Arc::new(error));
        status
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
