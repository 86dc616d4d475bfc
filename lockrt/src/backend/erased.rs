//! The boxed twin of [`Backend`]: the one place where its futures are boxed, so that managers
//! have no type parameter.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use crate::backend::contract::Backend;
use crate::claim::{Attempt, Capabilities, Claim, Released, Renewed};
use crate::error::BackendError;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Backend`] as a trait object.
pub(crate) trait DynBackend: Debug + Send + Sync + 'static {
    fn capabilities(&self) -> &Capabilities;
    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, Result<Attempt, BackendError>>;
    fn renew<'a>(&'a self, claims: &'a [&'a Claim]) -> Boxed<'a, Vec<Renewed>>;
    fn release<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, Result<Released, BackendError>>;
    fn freed<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, ()>;
}

impl<B: Backend> DynBackend for B {
    fn capabilities(&self) -> &Capabilities {
        Backend::capabilities(self)
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, Result<Attempt, BackendError>> {
        Box::pin(Backend::try_acquire(self, claim))
    }

    fn renew<'a>(&'a self, claims: &'a [&'a Claim]) -> Boxed<'a, Vec<Renewed>> {
        Box::pin(Backend::renew(self, claims))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, Result<Released, BackendError>> {
        Box::pin(Backend::release(self, claim))
    }

    fn freed<'a>(&'a self, claim: &'a Claim) -> Boxed<'a, ()> {
        Box::pin(Backend::freed(self, claim))
    }
}
