//! What a store's error means, in sentences without paths and URLs, which the errors of its client contain.

use object_store::Error;

use crate::error::BackendError;

/// A failed look: nothing was written.
pub(super) fn of_get(error: &Error) -> BackendError {
    refused(error).unwrap_or_else(|| BackendError::not_applied("the store did not give the object"))
}

/// Whether it is the object that is missing, and not the bucket or container around it. Clients give both the same
/// kind of error, with the store's own words.
pub(super) fn is_missing(error: &Error) -> bool {
    let Error::NotFound { source, .. } = error else { return false };
    let said = source.to_string();
    !["NoSuchBucket", "ContainerNotFound"].iter().any(|code| said.contains(&format!("<Code>{code}</Code>")))
}

/// A failed put.
pub(super) fn of_put(error: &Error) -> BackendError {
    refused(error)
        .unwrap_or_else(|| BackendError::unknown("the store did not say that it has put the object"))
}

/// What is certainly a refusal; none for what may be an answer that got lost.
fn refused(error: &Error) -> Option<BackendError> {
    let reason = match error {
        Error::NotFound { .. } => "there is no such bucket or container",
        Error::PermissionDenied { .. } => {
            "these credentials may not do that: reading and writing the object are both needed, and on S3 listing \
             the bucket, without which a missing object looks like a forbidden one"
        }
        Error::Unauthenticated { .. } => "the store does not know these credentials",
        Error::InvalidPath { .. } => "the store takes no such path",
        Error::NotSupported { .. } | Error::NotImplemented { .. } => "the store cannot do that",
        Error::UnknownConfigurationKey { .. } => "the store is not configured right",
        _ => return None,
    };
    Some(BackendError::not_applied(reason).permanent())
}
