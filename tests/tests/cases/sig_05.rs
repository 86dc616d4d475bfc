// sig 05
// kind: axum; `Json(mut req)`; generic body wrapper; Extension kept whole
// key wished: "article:create:{req.article.title}"  (the true identity is a slug computed in the body)
// contention wished: 409
// trap: the wished key is a pure function of an argument (slugify(title)), not the argument
use axum::response::{IntoResponse, Response};
use axum::{Json, extract::Extension};
pub struct Failure;
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        ().into_response()
    }
}
#[derive(serde::Deserialize, serde::Serialize)]
pub struct Wrap<T> {
    pub article: T,
}
#[derive(serde::Deserialize, serde::Serialize)]
pub struct NewArticle {
    pub title: String,
    pub tags: Vec<String>,
}
#[derive(Clone)]
pub struct Ctx;
fn slugify(s: &str) -> String {
    s.to_lowercase().replace(' ', "-")
}

#[lockrt::distributed_lock(key = "article:create:{req.article.title}", ttl_ms = 5_000, on_contention = fail)]
async fn create_article(
    ctx: Extension<Ctx>,
    Json(mut req): Json<Wrap<NewArticle>>,
) -> Result<Json<Wrap<NewArticle>>, Failure> {
    let _ = ctx;
    let slug = slugify(&req.article.title);
    req.article.tags.sort();
    if slug.is_empty() {
        return Err(Failure);
    }
    Ok(Json(req))
}
fn _route() -> axum::Router {
    axum::Router::new().route("/", axum::routing::post(create_article))
}

impl From<lockrt::LockError> for Failure {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
