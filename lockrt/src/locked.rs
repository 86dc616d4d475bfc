//! What a locked `-> impl Trait` gives: [`Locked`].

use crate::error::LockError;

/// The value of the body, or the refusal in its place; an answer of a web framework if both are.
#[derive(Debug)]
pub struct Locked<T>(pub(crate) Result<T, LockError>);

impl<T> From<Result<T, LockError>> for Locked<T> {
    fn from(settled: Result<T, LockError>) -> Self {
        Self(settled)
    }
}
