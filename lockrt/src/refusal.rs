//! The traits that turn a refusal into a function's return value.

use crate::error::LockError;

/// A return type with room for a refusal.
///
/// `Result<_, E>` has it where `E: From<LockError>`; with features `axum` and `actix-web` so have
/// the responses that their handlers return.
#[diagnostic::on_unimplemented(
    message = "a lock refusal cannot be turned into `{Self}`",
    label = "`fail` and `wait` need a return type with room for the refusal",
    note = "return a `Result<_, E>` with `E: From<lockrt::LockError>`, or write `on_error = |error| value`",
    note = "for `()` and `Option` you may write `on_contention = skip`"
)]
pub trait FromLockError: Sized {
    /// The value that stands for the refusal.
    fn from_lock_error(error: LockError) -> Self;
}

impl<T, E: HoldsRefusal> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(error.into())
    }
}

/// Any `E: From<LockError>`, under a name that can say what to write where it is missing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold a lock's refusal: write `impl From<lockrt::LockError> for {Self}`",
    label = "a refusal is returned as this function's error",
    note = "or make the value yourself: `on_error = |error| Err(..)`"
)]
pub trait HoldsRefusal: From<LockError> {}

#[diagnostic::do_not_recommend]
impl<E: From<LockError>> HoldsRefusal for E {}

/// A return type with a value that says "somebody else is at it, nothing to do".
#[diagnostic::on_unimplemented(
    message = "`skip` has no neutral value for `{Self}`",
    label = "`skip` needs `()`, `Option<_>`, `Result<(), _>` or `Result<Option<_>, _>`",
    note = "write the value to return: `on_contention = skip(value)`"
)]
pub trait Skipped: Sized {
    /// The neutral value.
    fn skipped() -> Self;
}

impl Skipped for () {
    fn skipped() -> Self {}
}

impl<T> Skipped for Option<T> {
    fn skipped() -> Self {
        None
    }
}

#[diagnostic::do_not_recommend]
impl<T: Skipped, E> Skipped for Result<T, E> {
    fn skipped() -> Self {
        Ok(T::skipped())
    }
}

/// A return type with a value for the refusals that nobody answered, such as an outage under
/// `skip`: the refusal where there is room, else the neutral value beside an error event.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no value for an unavailable lock or a lost lease",
    label = "needs `Result<_, E>` with `E: From<LockError>`, `()` or `Option<_>`",
    note = "write `on_error = |error| value`, or `impl From<LockError>` for the error of a `Result`"
)]
pub trait Unanswered: Sized {
    /// The value, and the refusal again if the value does not hold it.
    fn unanswered(error: LockError) -> (Self, Option<LockError>);
}

impl<T: FromLockError> Unanswered for T {
    fn unanswered(error: LockError) -> (Self, Option<LockError>) {
        (T::from_lock_error(error), None)
    }
}

impl Unanswered for () {
    fn unanswered(error: LockError) -> (Self, Option<LockError>) {
        ((), Some(error))
    }
}

impl<T> Unanswered for Option<T> {
    fn unanswered(error: LockError) -> (Self, Option<LockError>) {
        (None, Some(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_values_swallow_no_refusal_silently() {
        assert!(<()>::unanswered(LockError::ShuttingDown).1.is_some());
        assert!(Option::<u8>::unanswered(LockError::ShuttingDown).1.is_some());
        let (kept, lost) = Result::<(), LockError>::unanswered(LockError::ShuttingDown);
        assert!(kept.is_err() && lost.is_none());
    }
}
