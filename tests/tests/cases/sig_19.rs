// sig 19
// kind: axum; no return type at all; the same extractor type twice
// key wished: "run:{id}:log:{filename}"
// contention wished: skip (there is nothing to return)
// trap: `()` has no room for an error: only skip or wait are sound
use axum::extract::{Path, State};
use std::sync::Arc;
pub struct App;

#[lockrt::distributed_lock(key = "run:{id}:log:{filename}", ttl_ms = 5_000, on_contention = skip)]
async fn log(State(state): State<Arc<App>>, Path(id): Path<String>, Path(filename): Path<String>) {
    let _ = (state, id, filename);
}
