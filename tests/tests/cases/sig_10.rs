// sig 10
// kind: axum; two Extension extractors; validated newtype in Path; #[instrument(skip_all, fields(..))] above
// key wished: "cache:{cache_name}"
// contention wished: 409
// trap: the newtype offers as_str() but not always Display, so the key may need a method call
use axum::Json;
use axum::extract::{Extension, Path};
use tracing::instrument;
#[derive(Clone)]
pub struct Server;
#[derive(Clone)]
pub struct ReqState;
#[derive(serde::Deserialize)]
pub struct CacheName(String);
impl CacheName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
#[derive(serde::Deserialize)]
pub struct CacheConfig {
    pub priority: Option<i32>,
}
pub struct Fault;
impl axum::response::IntoResponse for Fault {
    fn into_response(self) -> axum::response::Response {
        ().into_response()
    }
}
pub type ServerResult<T> = Result<T, Fault>;

#[instrument(skip_all, fields(cache_name, payload))]
#[lockrt::distributed_lock(key = "cache:{cache_name.as_str()}", ttl_ms = 10_000, on_contention = fail)]
pub(crate) async fn configure_cache(
    Extension(state): Extension<Server>,
    Extension(req_state): Extension<ReqState>,
    Path(cache_name): Path<CacheName>,
    Json(payload): Json<CacheConfig>,
) -> ServerResult<()> {
    let _ = (state, req_state, cache_name);
    payload.priority.ok_or(Fault)?;
    Ok(())
}
fn _route() -> axum::Router {
    axum::Router::new().route("/{name}", axum::routing::patch(configure_cache))
}

impl From<lockrt::LockError> for Fault {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
