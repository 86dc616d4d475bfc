// sig 04
// kind: axum; the classic Path((a, b)) tuple; Result alias with one parameter; returns Result<()>
// key wished: "article:{slug}:comment:{comment_id}"
// contention wished: 409
// trap: slug is free text from the URL (may hold `:`, `%`, unicode)
use axum::extract::{Extension, Path};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
pub struct Failure;
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
pub type Result<T, E = Failure> = std::result::Result<T, E>;
#[derive(Clone)]
pub struct Ctx;

#[lockrt::distributed_lock(key = "article:{slug}:comment:{comment_id}", ttl_ms = 5_000, on_contention = fail)]
async fn delete_comment(ctx: Extension<Ctx>, Path((slug, comment_id)): Path<(String, i64)>) -> Result<()> {
    let _ = (&ctx, slug);
    if comment_id < 0 {
        return Err(Failure);
    }
    Ok(())
}
fn _route() -> axum::Router {
    axum::Router::new().route("/{slug}/{id}", axum::routing::delete(delete_comment))
}

impl From<lockrt::LockError> for Failure {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
