// sig 24
// kind: axum; `Extension(mut redis)`; lock kept on success, released only on failure
// key wished: "aat_commitment:{request.aat_commitment}"  (canonical form, parsed in the body)
// contention wished: 409 DuplicateRequestHash
// trap: release policy "keep until TTL on Ok, release on Err" = idempotency, not mutual exclusion; needs `release = on_error`
use axum::Json;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
#[derive(Clone)]
pub struct Redis;
pub struct Issuer;
#[derive(serde::Deserialize)]
pub struct AatRequest {
    pub aat_commitment: String,
    pub user_presence: u8,
}
#[derive(serde::Serialize)]
pub struct AatResponse {
    pub aat: String,
}
pub struct RequestError {
    pub code: &'static str,
}
impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        self.code.into_response()
    }
}

#[lockrt::distributed_lock(key = "aat_commitment:{request.aat_commitment}", ttl_ms = 3_600_000, on_contention = fail, on_cancel = hold)]
pub async fn handler(
    Extension(mut redis): Extension<Redis>,
    Extension(issuer): Extension<Option<Arc<Issuer>>>,
    Json(request): Json<AatRequest>,
) -> Result<Json<AatResponse>, RequestError> {
    redis = Redis;
    let _ = redis;
    let _issuer = issuer.ok_or(RequestError { code: "not_found" })?;
    if request.user_presence > 4 {
        return Err(RequestError { code: "bad_request" });
    }
    Ok(Json(AatResponse { aat: request.aat_commitment }))
}

impl From<lockrt::LockError> for RequestError {
    fn from(error: lockrt::LockError) -> Self {
        Self { code: error.kind() }
    }
}
