// sig 23
// kind: axum; generic handler with a where clause; `Extension(mut storage)` (argument order changed: axum 0.8 wants the body extractor last)
// key wished: "enqueue:{queue name of T}"  (a type, not a value)
// contention wished: wait
// trap: with no value to interpolate the key is the same for every T unless type_name::<T>() can be used
use axum::extract::{Extension, Form};
use axum::response::IntoResponse;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
#[derive(Clone)]
pub struct Store<T>(Vec<T>);

#[lockrt::distributed_lock(key = "enqueue:{std::any::type_name::<T>()}", ttl_ms = 2_000, on_contention = wait(timeout_ms = 2_000))]
async fn add_job<T>(Extension(mut storage): Extension<Store<T>>, Form(input): Form<T>) -> impl IntoResponse
where
    T: 'static + Debug + Serialize + DeserializeOwned + Unpin + Send + Sync + Clone,
{
    storage.0.push(input);
    (axum::http::StatusCode::OK, format!("{:?}", storage.0.len()))
}
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub struct Mail {
    pub to: String,
}
fn _route() -> axum::Router {
    axum::Router::new().route("/", axum::routing::post(add_job::<Mail>))
}
