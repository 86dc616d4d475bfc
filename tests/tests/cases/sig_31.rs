// sig 31
// kind: actix-web; const generic EXPRESSION in an argument type; two-parameter JSON wrapper
// key wished: "api-key:{path.key}"
// contention wished: 409
// trap: the key holds a secret (an API key): it must be hashed before it reaches Redis or a log line
use actix_web::HttpResponse;
use actix_web::web::{self, Data};
pub mod actions {
    pub const KEYS_UPDATE: u8 = 7;
}
pub struct Policy<const A: u8>;
pub struct Guarded<P, D> {
    pub data: D,
    pub policy: P,
}
pub struct Keys;
pub struct Js<T, E>(pub T, pub std::marker::PhantomData<E>);
pub struct Bad;
pub struct Patch {
    pub name: Option<String>,
}
#[derive(serde::Deserialize)]
pub struct AuthParam {
    pub key: String,
}
#[derive(Debug)]
pub struct ResponseError;
impl std::fmt::Display for ResponseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("re")
    }
}
impl actix_web::ResponseError for ResponseError {}

#[lockrt::distributed_lock(key = "api-key:{path.key:hash}", ttl_ms = 10_000, on_contention = fail)]
pub async fn patch_api_key(
    auth: Guarded<Policy<{ actions::KEYS_UPDATE }>, Data<Keys>>,
    body: Js<Patch, Bad>,
    path: web::Path<AuthParam>,
) -> Result<HttpResponse, ResponseError> {
    let Guarded { data: _, policy: _ } = auth;
    let key = path.into_inner().key;
    if key.len() < 16 || body.0.name.is_none() {
        return Err(ResponseError);
    }
    Ok(HttpResponse::Ok().finish())
}

impl From<lockrt::LockError> for ResponseError {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
