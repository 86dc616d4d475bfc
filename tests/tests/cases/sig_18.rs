// sig 18
// kind: axum; Path((String, newtype enum)); Result<Response, Response>
// key wished: "quote:{method}:{quote_id}"
// contention wished: return the last known state (stale) instead of an error
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
#[derive(Clone)]
pub struct Mint;

#[tracing::instrument(skip_all, fields(method = ?method, quote_id = ?quote_id))]
#[lockrt::distributed_lock(key = "quote:{method}:{quote_id}", ttl_ms = 5_000, on_contention = skip(Ok("last known state".into_response())))]
pub async fn check_quote(
    State(state): State<Mint>,
    Path((method, quote_id)): Path<(String, uuid::Uuid)>,
) -> Result<Response, Response> {
    let _ = state;
    if method != "bolt11" {
        return Err(axum::http::StatusCode::NOT_FOUND.into_response());
    }
    Ok(quote_id.to_string().into_response())
}
fn _route() -> axum::Router {
    axum::Router::new().route("/{m}/{q}", axum::routing::get(check_quote)).with_state(Mint)
}
