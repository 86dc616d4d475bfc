//! The token of the current lease in every request that a client sends: [`CarryToken`].

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

use crate::lease::current_lease;
use crate::web::header::{FENCING_TOKEN, value_of};

/// A layer for HTTP clients: a request that is made under a lock carries the fencing token of its lease.
///
/// The lease is the one of the body that makes the call, as [`current_lease`] finds it, the innermost of
/// several. So let this layer be the outermost: behind a buffer or a spawned task the call comes from
/// elsewhere. A request made under no lease, or under one without a token, is left as it is; what the header
/// held before is replaced only by a lease's own token.
///
/// ```
/// use http::Request;
/// use lockrt::web::{CarryToken, FENCING_TOKEN};
/// use lockrt::{LockKey, LockPolicy};
/// use std::time::Duration;
/// use tower::{Layer, ServiceExt};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let locks = lockrt::testing::memory();
/// // A client of your choice; this one answers with what it was told to send.
/// let client = tower::service_fn(async |request: Request<()>| {
///     Ok::<_, std::convert::Infallible>(request.headers().get(FENCING_TOKEN).cloned())
/// });
/// let client = CarryToken.layer(client);
///
/// let policy = LockPolicy::new(Duration::from_secs(10));
/// locks.run(&LockKey::new("stock:7")?, &policy, async |lease| {
///     let sent = client.clone().oneshot(Request::new(())).await?;
///     assert_eq!(sent.unwrap(), lease.fencing().unwrap().to_string());
///     Ok::<_, std::convert::Infallible>(())
/// }).await??;
/// assert_eq!(client.oneshot(Request::new(())).await?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CarryToken;

/// A client whose requests carry the token of the lease that they are made under; made by [`CarryToken`].
#[derive(Clone, Copy, Debug)]
pub struct Carrying<S>(S);

impl<S> Layer<S> for CarryToken {
    type Service = Carrying<S>;

    fn layer(&self, client: S) -> Carrying<S> {
        Carrying(client)
    }
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Carrying<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(token) = current_lease().and_then(|lease| lease.fencing()) {
            request.headers_mut().insert(FENCING_TOKEN, value_of(token));
        }
        self.0.call(request)
    }
}
