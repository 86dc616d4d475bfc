// sig 25
// kind: actix-web; web::Path<newtype> kept whole; -> impl Responder; #[cfg] above #[instrument]
// key wished: "payment:{path.get_string_repr()}"  (web::Path derefs to the newtype)
// contention wished: wait (bounded), then 423/409: they hold for up to TTL minus one step
// trap: the body moves path out with into_inner(); the tenant (merchant) of the key is known only after authentication inside the body
use actix_web::{HttpRequest, HttpResponse, Responder, web};
pub struct AppState;
#[derive(serde::Deserialize, Clone)]
pub struct PaymentId(String);
impl PaymentId {
    pub fn get_string_repr(&self) -> &str {
        &self.0
    }
}
#[derive(serde::Deserialize)]
pub struct CancelRequest {
    #[serde(skip)]
    pub payment_id: Option<PaymentId>,
    pub reason: Option<String>,
}

#[cfg(not(feature = "v2"))]
#[tracing::instrument(skip_all, fields(payment_id))]
#[lockrt::distributed_lock(key = "payment:{path.get_string_repr()}", ttl_ms = 180_000, on_contention = wait(timeout_ms = 5_000), renew = auto(max_ms = 600_000))]
pub async fn payments_cancel(
    state: web::Data<AppState>,
    req: HttpRequest,
    json_payload: web::Json<CancelRequest>,
    path: web::Path<PaymentId>,
) -> impl Responder {
    let mut payload = json_payload.into_inner();
    let payment_id = path.into_inner();
    tracing::Span::current().record("payment_id", payment_id.get_string_repr());
    payload.payment_id = Some(payment_id);
    let _ = (state, req);
    HttpResponse::Ok().body(payload.reason.unwrap_or_default())
}
#[cfg(not(feature = "v2"))]
fn _route(cfg: &mut web::ServiceConfig) {
    cfg.route("/{id}/cancel", web::post().to(payments_cancel));
}
