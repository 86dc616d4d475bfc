// sig 07
// kind: axum; the key does not exist yet when the body starts (it is inside the streamed request body)
// key wished: none reachable from the signature: needs a call inside the body, `lockrt::lock(format!("crate:{name}"))`
// contention wished: wait
// trap: the macro cannot serve this function; the runtime API must
use axum::{Json, body::Body, http::request::Parts};
#[derive(Clone)]
pub struct AppState;
pub struct Boxed;
#[derive(serde::Serialize)]
pub struct Published {
    pub name: String,
}

// NO-ATTRIBUTE: the key is parsed from `body`
pub async fn publish(app: AppState, req: Parts, body: Body) -> Result<Json<Published>, Boxed> {
    let _ = (app, req);
    let bytes = axum::body::to_bytes(body, 1024).await.map_err(|_| Boxed)?;
    let name = String::from_utf8(bytes.to_vec()).map_err(|_| Boxed)?;
    Ok(Json(Published { name }))
}
