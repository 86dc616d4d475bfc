// sig 28
// kind: actix-web; Path<struct>; `mut payload: Payload` (not Send stream); custom header extractor
// key wished: "upload:{path.workspace_id}:{path.upload_id}:{path.part_num}"
// contention wished: 409
// trap: actix handlers need not be Send: the wrapper must not demand Send of the body's future
use actix_web::web::{self, Payload};
use std::rc::Rc;
pub struct AppState;
#[derive(serde::Deserialize)]
pub struct PartPath {
    pub workspace_id: uuid::Uuid,
    pub parent_dir: String,
    pub file_id: String,
    pub upload_id: String,
    pub part_num: i32,
}

#[tracing::instrument(level = "debug", skip_all, err)]
#[lockrt::distributed_lock(key = "upload:{path.workspace_id}:{path.upload_id}:{path.part_num}", ttl_ms = 60_000, on_contention = fail)]
async fn upload_part(
    path: web::Path<PartPath>,
    state: web::Data<AppState>,
    mut payload: Payload,
) -> actix_web::Result<String> {
    let not_send = Rc::new(state);
    let path = path.into_inner();
    let _ = &mut payload;
    tokio::task::yield_now().await;
    drop(not_send);
    Ok(format!("{}/{}", path.parent_dir, path.file_id))
}
fn _route(cfg: &mut web::ServiceConfig) {
    cfg.route("/part", web::put().to(upload_part));
}
