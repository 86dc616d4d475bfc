// sig 16
// kind: axum; key from a METHOD on an argument; fallible extractor `body: Result<Json<..>, JsonRejection>`; `Result<impl IntoResponse, E>`
// key wished: "client:{client_authorization.client_id()}"
// contention wished: wait
// trap: `impl IntoResponse` inside Result: the type of the Ok side cannot be named by the macro
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
pub struct ClientAuth<T> {
    id: String,
    form: T,
}
impl<T> ClientAuth<T> {
    pub fn client_id(&self) -> &str {
        &self.id
    }
}
pub struct Introspect;
#[derive(serde::Deserialize)]
pub struct Meta {
    pub name: Option<String>,
}
#[derive(Debug)]
pub struct RouteError;
impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("e")
    }
}
impl From<JsonRejection> for RouteError {
    fn from(_: JsonRejection) -> Self {
        RouteError
    }
}
impl IntoResponse for RouteError {
    fn into_response(self) -> Response {
        ().into_response()
    }
}

#[tracing::instrument(fields(client.id = client_authorization.client_id()), skip_all, err)]
#[lockrt::distributed_lock(key = "client:{client_authorization.client_id()}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
pub(crate) async fn register(
    client_authorization: ClientAuth<Introspect>,
    body: Result<Json<Meta>, JsonRejection>,
) -> Result<impl IntoResponse, RouteError> {
    let Json(meta) = body?;
    if meta.name.is_none() {
        return Ok((axum::http::StatusCode::BAD_REQUEST, String::new()));
    }
    let ClientAuth { id, form: _ } = client_authorization;
    Ok((axum::http::StatusCode::CREATED, id))
}

impl From<lockrt::LockError> for RouteError {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
