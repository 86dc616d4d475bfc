// sig 26
// kind: actix-web; route macro #[put("/collections/{collection_name}")] on the function; mixed whole and destructured extractors
// key wished: "collection:{collection.collection_name}"
// contention wished: 409
// trap: #[put] turns the fn into a struct: the lock attribute must sit BELOW it; braces of the route look like braces of the key
use actix_web::{
    HttpResponse, put,
    web::{self, Json, Path, Query},
};
pub struct Dispatcher;
#[derive(serde::Deserialize)]
pub struct StrictPath {
    pub collection_name: String,
}
#[derive(serde::Deserialize)]
pub struct CreateCollection {
    pub size: u64,
}
#[derive(serde::Deserialize)]
pub struct Wait {
    pub timeout: Option<u64>,
}

#[put("/collections/{collection_name}")]
#[lockrt::distributed_lock(key = "collection:{collection.collection_name}", ttl_ms = 30_000, on_contention = fail)]
async fn create_collection(
    dispatcher: web::Data<Dispatcher>,
    collection: Path<StrictPath>,
    operation: Json<CreateCollection>,
    Query(query): Query<Wait>,
) -> HttpResponse {
    let _ = (dispatcher, query.timeout);
    if operation.size == 0 {
        return HttpResponse::BadRequest().finish();
    }
    HttpResponse::Ok().body(collection.into_inner().collection_name)
}
fn _route(cfg: &mut web::ServiceConfig) {
    cfg.service(create_collection);
}
