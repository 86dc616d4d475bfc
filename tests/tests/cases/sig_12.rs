// sig 12
// kind: axum; pattern with a wildcard inside, pattern with an _unused name inside; #[cfg(..)] on the function
// key wished: none (stub); with key "invite:{_token}" the binding exists although it is named _token
// contention wished: skip
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
pub struct Headers<T>(pub T);
pub struct UserEmail;

#[cfg(not(feature = "cloud"))]
#[lockrt::distributed_lock(key = "invite:{_token}", ttl_ms = 5_000, on_contention = skip(axum::http::StatusCode::NO_CONTENT.into_response()))]
pub async fn decline_invitation(Headers(_): Headers<UserEmail>, Path(_token): Path<String>) -> Response {
    axum::http::StatusCode::FORBIDDEN.into_response()
}
