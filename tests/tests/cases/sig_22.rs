// sig 22
// kind: axum; another attribute macro that rewrites the body (#[es_event_context]); raw headers, uri and bytes; returns ()
// key wished: "webhook:{provider}"
// contention wished: accept and queue (the sender retries on anything but 2xx)
// trap: the delivery id that one really wants is inside the raw payload
use axum::body::Bytes;
use axum::extract::{Extension, Path};
use axum::http::{HeaderMap, Uri};
#[derive(Clone)]
pub struct App;

#[lockrt::distributed_lock(key = "webhook:{provider}", ttl_ms = 10_000, on_contention = skip)]
async fn webhook(
    Extension(app): Extension<App>,
    Path(provider): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    payload: Bytes,
) {
    let _ = (app, provider, headers, uri, payload);
}
fn _route() -> axum::Router {
    axum::Router::new().route("/{p}", axum::routing::post(webhook))
}
