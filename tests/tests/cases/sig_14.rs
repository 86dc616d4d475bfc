// sig 14
// kind: axum; SIXTEEN arguments, which is axum's limit, reached by packing two extractors into one tuple argument, twice
// key wished: "register:{form.username}"
// contention wished: 409 page
// trap: the macro must not add a parameter (a 17th breaks Handler); tuple patterns around extractors; #[allow] below #[instrument]
use axum::extract::{Form, FromRequestParts, Query, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
#[derive(Clone)]
pub struct S;
pub struct D;
impl<St: Send + Sync> FromRequestParts<St> for D {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(_: &mut Parts, _: &St) -> Result<Self, Self::Rejection> {
        Ok(D)
    }
}
impl<St: Send + Sync> axum::extract::OptionalFromRequestParts<St> for D {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(_: &mut Parts, _: &St) -> Result<Option<Self>, Self::Rejection> {
        Ok(None)
    }
}
#[derive(serde::Deserialize)]
pub struct Reg {
    pub username: String,
}
#[derive(serde::Deserialize)]
pub struct After {
    pub next: Option<String>,
}
pub struct Fancy;
impl std::fmt::Display for Fancy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("fancy")
    }
}
impl IntoResponse for Fancy {
    fn into_response(self) -> Response {
        ().into_response()
    }
}

#[tracing::instrument(name = "views.register.post", skip_all, err)]
#[allow(clippy::too_many_lines, clippy::too_many_arguments)]
#[lockrt::distributed_lock(key = "register:{form.username}", ttl_ms = 10_000, on_contention = fail)]
pub(crate) async fn post(
    mut rng: D,
    clock: D,
    locale: D,
    State(a): State<S>,
    State(b): State<S>,
    State(c): State<S>,
    State(d): State<S>,
    State(e): State<S>,
    State(f): State<S>,
    (State(limiter), requester): (State<S>, D),
    mut policy: D,
    mut repo: D,
    (user_agent, tracker): (Option<D>, D),
    Query(query): Query<After>,
    jar: D,
    Form(form): Form<Reg>,
) -> Result<Response, Fancy> {
    rng = D;
    policy = D;
    repo = D;
    let _ = (
        rng,
        clock,
        locale,
        a,
        b,
        c,
        d,
        e,
        f,
        limiter,
        requester,
        policy,
        repo,
        user_agent.is_some(),
        tracker,
        query.next,
        jar,
    );
    if form.username.is_empty() {
        return Err(Fancy);
    }
    Ok("ok".into_response())
}
fn _route() -> axum::Router {
    axum::Router::new().route("/register", axum::routing::post(post)).with_state(S)
}

impl From<lockrt::LockError> for Fancy {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
