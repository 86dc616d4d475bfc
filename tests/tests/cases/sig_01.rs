// sig 01
// kind: axum; struct pattern with `ref` and `..` inside State; `_` Path; custom extractor destructured without a tuple struct
// key wished: "endpoint:create:{app.id}"  (app comes from a permission extractor, the path itself is `_`)
// contention wished: wait a little, then 409
// trap: the state is torn apart by the pattern, so no `state.lock_manager` is left to reach; the Path is `_`
use axum::extract::{Path, State};

#[derive(Clone)]
pub struct AppState {
    db: u32,
    cfg: u32,
    cache: u32,
    ops: u32,
    queue: u32,
}
pub struct AppPath {
    pub app_ref: String,
}
pub struct Tenant {
    pub id: String,
}
pub struct AppGrant {
    pub app: Tenant,
}
pub struct Checked<T>(pub T);
pub struct EndpointIn {
    pub url: String,
}
pub struct EndpointOut {
    pub url: String,
}
pub struct Problem;

#[lockrt::distributed_lock(key = "endpoint:create:{app.id}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
pub(super) async fn create_endpoint(
    State(AppState { ref db, ref cfg, ref cache, ops, .. }): State<AppState>,
    _: Path<AppPath>,
    AppGrant { app }: AppGrant,
    Checked(data): Checked<EndpointIn>,
) -> Result<axum::Json<EndpointOutDto>, Problem> {
    let _ = (db, cfg, cache, ops, &app.id);
    Ok(axum::Json(EndpointOutDto { url: data.url }))
}
#[derive(serde::Serialize)]
pub struct EndpointOutDto {
    pub url: String,
}

impl From<lockrt::LockError> for Problem {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
