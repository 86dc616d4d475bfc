// sig 15
// kind: axum; #[instrument(fields(grant.id = %grant_id))] reads an argument too; `mut policy`
// key wished: "grant:{grant_id}"
// contention wished: 409 (the grant is consumed once)
// trap: attribute order, measured: the LOWER attribute ends up as the OUTER wrapper. As written here the lock is taken before the span opens; put the lock above #[instrument] to have the waiting inside the span
use axum::extract::{Form, Path, State};
use axum::response::{IntoResponse, Response};
#[derive(Clone)]
pub struct Urls;
#[derive(serde::Deserialize)]
pub struct Csrf {
    pub csrf: String,
}
#[derive(Debug)]
pub enum RouteError {
    Gone,
}
impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("gone")
    }
}
impl IntoResponse for RouteError {
    fn into_response(self) -> Response {
        ().into_response()
    }
}

#[tracing::instrument(name = "oauth2.consent.post", fields(grant.id = %grant_id), skip_all, err)]
#[lockrt::distributed_lock(key = "grant:{grant_id}", ttl_ms = 15_000, on_contention = fail)]
pub(crate) async fn post(
    State(urls): State<Urls>,
    Path(grant_id): Path<uuid::Uuid>,
    Form(form): Form<Csrf>,
) -> Result<Response, RouteError> {
    let _ = urls;
    if form.csrf.is_empty() {
        return Err(RouteError::Gone);
    }
    Ok(grant_id.to_string().into_response())
}
fn _route() -> axum::Router {
    axum::Router::new().route("/{g}", axum::routing::post(post)).with_state(Urls)
}

impl From<lockrt::LockError> for RouteError {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self::Gone
    }
}
