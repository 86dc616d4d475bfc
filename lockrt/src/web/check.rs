//! Requests of holders that came too late are refused at the door: [`CheckToken`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use serde_json::json;
use tower_layer::Layer;
use tower_service::Service;

use crate::fence::Fence;
use crate::token::FencingToken;
use crate::web::header::{FENCING_TOKEN, token_of};
use crate::web::problem::{PROBLEM_JSON, Problem};

/// A layer for HTTP services: a request with a [`FENCING_TOKEN`] older than one that was seen for the same
/// resource is answered with 409 and does not reach the service.
///
/// A token that passes is registered, so that from then on older ones are refused, and stands in the request's
/// extensions as a [`FencingToken`]. That is the *register before the first read* of the
/// [fences](crate::fence); it does not make the write safe by itself, since a later holder may come between
/// the door and the write. So write by [`Fence::write`] with that token, or compare it where you store it.
///
/// | request | answer |
/// |---|---|
/// | a token older than the greatest seen | 409, with both tokens |
/// | the header holds no token | 400 |
/// | no token, and a method that may change something | 428, so that nobody writes past the fence |
/// | no token, and `GET`, `HEAD`, `OPTIONS` or `TRACE` | passes, and registers nobody |
/// | anything else | passes |
///
/// Answers are problem documents (RFC 9457); they need a body that can be made of a `String`, as axum's and
/// `http-body-util`'s can.
///
/// ```
/// # #[cfg(feature = "axum")]
/// # fn shown() {
/// use axum::{Extension, Router, extract::State, routing::put};
/// use lockrt::FencingToken;
/// use lockrt::fence::{Fence, FenceError};
/// use lockrt::web::CheckToken;
/// use std::sync::Arc;
///
/// async fn store(
///     State(fence): State<Arc<Fence>>,
///     Extension(token): Extension<FencingToken>,
/// ) -> Result<(), FenceError> {
///     fence.write("/stock/7", token, || { /* the write */ })
/// }
///
/// let fence = Arc::new(Fence::new());
/// let routes = Router::new()
///     .route("/stock/7", put(store))
///     .layer(CheckToken::by_path(Arc::clone(&fence)))
///     .with_state(fence);
/// # let _: Router = routes;
/// # }
/// ```
#[derive(Clone)]
pub struct CheckToken {
    fence: Arc<Fence>,
    resource: Arc<dyn Fn(&Parts) -> String + Send + Sync>,
}

impl CheckToken {
    /// Checks against `fence`; a resource is the path of the request's URI.
    #[must_use]
    pub fn by_path(fence: Arc<Fence>) -> Self {
        Self::by(fence, |request| request.uri.path().to_owned())
    }

    /// Checks against `fence`; `resource` says what a request is about. All requests for what is locked by one
    /// key must give one name, and those for what other keys lock other names.
    #[must_use]
    pub fn by(fence: Arc<Fence>, resource: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        Self { fence, resource: Arc::new(resource) }
    }

    /// What the request carries, if it may pass.
    fn look(&self, request: &Parts) -> Result<Option<FencingToken>, Refused> {
        let token = token_of(&request.headers).map_err(|invalid| Refused::invalid(&invalid.to_string()))?;
        match token {
            Some(token) => match self.fence.register(&(self.resource)(request), token) {
                Ok(()) => Ok(Some(token)),
                Err(refusal) => Err(Refused::by_fence(&Problem::from(&refusal))),
            },
            None if request.method.is_safe() => Ok(None),
            None => Err(Refused::without_token()),
        }
    }
}

impl fmt::Debug for CheckToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckToken").field("fence", &self.fence).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for CheckToken {
    type Service = Checking<S>;

    fn layer(&self, service: S) -> Checking<S> {
        Checking { door: self.clone(), service }
    }
}

/// An answer of the door, without a body of anybody's type.
struct Refused {
    status: StatusCode,
    document: String,
    retry_seconds: Option<u64>,
}

impl Refused {
    fn by_fence(problem: &Problem) -> Self {
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let document = problem.document(status.as_u16()).to_string();
        Self { status, document, retry_seconds: problem.retry_seconds() }
    }

    fn invalid(detail: &str) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "fence:malformed", "Malformed fencing token", detail)
    }

    fn without_token() -> Self {
        let detail =
            format!("This writes under a lock: send the header `{FENCING_TOKEN}` with the lease's token.");
        Self::of(StatusCode::PRECONDITION_REQUIRED, "fence:missing", "Fencing token required", &detail)
    }

    fn of(status: StatusCode, kind: &str, title: &str, detail: &str) -> Self {
        let document = json!({
            "type": format!("urn:lockrt:{kind}"),
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
        });
        Self { status, document: document.to_string(), retry_seconds: None }
    }

    fn response<B: From<String>>(self) -> Response<B> {
        let mut response = Response::new(B::from(self.document));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A service with a fence at its door; made by [`CheckToken`].
#[derive(Clone, Debug)]
pub struct Checking<S> {
    door: CheckToken,
    service: S,
}

impl<S, B, Answer> Service<Request<B>> for Checking<S>
where
    S: Service<Request<B>, Response = Response<Answer>>,
    Answer: From<String>,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = CheckingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        match self.door.look(&parts) {
            Ok(token) => {
                // One that came with the request from further out is nobody's word.
                parts.extensions.remove::<FencingToken>();
                if let Some(token) = token {
                    parts.extensions.insert(token);
                }
                let answer = self.service.call(Request::from_parts(parts, body));
                CheckingFuture { state: State::Passed { answer } }
            }
            Err(refused) => CheckingFuture { state: State::Refused { refused: Some(refused) } },
        }
    }
}

pin_project_lite::pin_project! {
    /// The answer of the service, or of the fence at its door.
    pub struct CheckingFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State<F> {
        Passed { #[pin] answer: F },
        Refused { refused: Option<Refused> },
    }
}

impl<F> fmt::Debug for CheckingFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = matches!(self.state, State::Passed { .. });
        f.debug_struct("CheckingFuture").field("passed", &passed).finish_non_exhaustive()
    }
}

impl<F, Answer, E> Future for CheckingFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
    Answer: From<String>,
{
    type Output = Result<Response<Answer>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { answer } => answer.poll(cx),
            // Polled once more after its end it waits for ever, as it may.
            StateProjection::Refused { refused } => match refused.take() {
                Some(refused) => Poll::Ready(Ok(refused.response())),
                None => Poll::Pending,
            },
        }
    }
}
