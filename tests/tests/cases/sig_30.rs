// sig 30
// kind: actix-web; user-controlled text as the only identity
// key wished: "register:{data.username}"
// contention wished: 409
// trap: case folding and unicode forms (Bob, bob, BOB, full-width) must meet in one key; the text may hold ':' and braces
use actix_web::HttpRequest;
use actix_web::web::{Data, Json};
pub struct Context;
#[derive(serde::Deserialize)]
pub struct Register {
    pub username: String,
    pub email: Option<String>,
}
pub type LemmyResult<T> = Result<T, actix_web::Error>;

#[lockrt::distributed_lock(key = "register:{data.username.to_lowercase()}", ttl_ms = 10_000, on_contention = fail)]
pub async fn register(
    Json(data): Json<Register>,
    req: HttpRequest,
    context: Data<Context>,
) -> LemmyResult<Json<bool>> {
    let _ = (req, context, data.email);
    Ok(Json(!data.username.is_empty()))
}
