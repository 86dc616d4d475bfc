// sig 02
// kind: axum; struct pattern inside a Path tuple-struct pattern with `..`; `mut` binding inside a pattern
// key wished: "endpoint:{app.id}:{endpoint_id}"
// contention wished: wait, then 409
// trap: endpoint_id is an "id or caller-chosen uid": two spellings name one row, so the lock must be on the resolved id (ambiguity A12)
use axum::extract::{Path, State};
#[derive(Clone)]
pub struct AppState {
    db: u32,
    cfg: u32,
    cache: u32,
    hooks: u32,
    queue: u32,
}
pub struct EndpointPath {
    pub app_id: String,
    pub endpoint_id: IdOrUid,
}
#[derive(Clone, Debug)]
pub struct IdOrUid(pub String);
impl std::fmt::Display for IdOrUid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
pub struct App {
    pub id: String,
}
pub struct AppGrant {
    pub app: App,
}
pub struct Checked<T>(pub T);
pub struct EndpointUpdate {
    pub url: String,
}
pub struct Problem;
pub struct Upserted<T>(pub T);

#[lockrt::distributed_lock(key = "endpoint:{app.id}:{endpoint_id:display}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
pub(super) async fn update_endpoint(
    State(AppState { ref db, ref cfg, ref cache, ref hooks, .. }): State<AppState>,
    Path(EndpointPath { endpoint_id, .. }): Path<EndpointPath>,
    AppGrant { app }: AppGrant,
    Checked(mut data): Checked<EndpointUpdate>,
) -> Result<Upserted<String>, Problem> {
    let _ = (db, cfg, cache, hooks);
    data.url.push('/');
    if app.id.is_empty() {
        return Err(Problem);
    }
    Ok(Upserted(format!("{}{}", data.url, endpoint_id)))
}

impl From<lockrt::LockError> for Problem {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
