//! The boxed twin of [`Backend`]: the one place where its futures are boxed, so that managers
//! have no type parameter. They own what they need, so that whoever polls them may hand them on.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::backend::contract::Backend;
use crate::claim::{Attempt, Capabilities, Claim, Released, Renewed};
use crate::error::BackendError;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// [`Backend`] as a trait object.
pub(crate) trait DynBackend: Debug + Send + Sync + 'static {
    fn capabilities(&self) -> &Capabilities;
    fn try_acquire(self: Arc<Self>, claim: Claim) -> Boxed<Result<Attempt, BackendError>>;
    fn renew(self: Arc<Self>, claims: Vec<Claim>) -> Boxed<Vec<Renewed>>;
    fn release(self: Arc<Self>, claim: Claim) -> Boxed<Result<Released, BackendError>>;
    fn freed(self: Arc<Self>, claim: Claim) -> Boxed<()>;
}

impl<B: Backend> DynBackend for B {
    fn capabilities(&self) -> &Capabilities {
        Backend::capabilities(self)
    }

    fn try_acquire(self: Arc<Self>, claim: Claim) -> Boxed<Result<Attempt, BackendError>> {
        Box::pin(async move { Backend::try_acquire(&*self, &claim).await })
    }

    fn renew(self: Arc<Self>, claims: Vec<Claim>) -> Boxed<Vec<Renewed>> {
        Box::pin(async move {
            let claims: Vec<&Claim> = claims.iter().collect();
            Backend::renew(&*self, &claims).await
        })
    }

    fn release(self: Arc<Self>, claim: Claim) -> Boxed<Result<Released, BackendError>> {
        Box::pin(async move { Backend::release(&*self, &claim).await })
    }

    fn freed(self: Arc<Self>, claim: Claim) -> Boxed<()> {
        Box::pin(async move { Backend::freed(&*self, &claim).await })
    }
}
