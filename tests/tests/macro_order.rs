//! Other attributes above and below `#[distributed_lock]`. The one below is the outer one when the function runs.
#![deny(warnings)]
#![allow(clippy::unwrap_used, clippy::unused_async)]

use lockrt::{LockError, LockManager, distributed_lock};
use tracing::instrument;

/// The locks, and the span that was open when they were asked for.
struct Watched {
    locks: LockManager,
    span: std::cell::Cell<Option<&'static str>>,
}

impl Watched {
    fn start() -> Self {
        Self { locks: lockrt::testing::manager(lockrt::Memory::new()), span: std::cell::Cell::new(None) }
    }

    fn ask(&self) -> &LockManager {
        self.span.set(open());
        &self.locks
    }
}

fn open() -> Option<&'static str> {
    tracing::Span::current().metadata().map(tracing::Metadata::name)
}

#[instrument(skip_all)]
#[distributed_lock(key = "order", ttl_ms = 5_000, manager = watched.ask())]
async fn span_above(watched: &Watched) -> Result<Option<&'static str>, LockError> {
    Ok(open())
}

#[distributed_lock(key = "order", ttl_ms = 5_000, manager = watched.ask())]
#[instrument(skip_all)]
async fn span_below(watched: &Watched) -> Result<Option<&'static str>, LockError> {
    Ok(open())
}

#[tokio::test]
async fn instrument_above_opens_its_span_under_the_lock_and_below_around_it() {
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry());
    let watched = Watched::start();
    assert_eq!(span_above(&watched).await.unwrap(), Some("span_above"));
    assert_eq!(watched.span.get(), None);
    assert_eq!(span_below(&watched).await.unwrap(), Some("span_below"));
    assert_eq!(watched.span.get(), Some("span_below"));
}

#[async_trait::async_trait(?Send)]
trait Traced {
    async fn above(&self, id: u8, (from, to): (u8, u8)) -> Result<u8, LockError>;
    async fn below(&mut self, id: u8, (from, to): (u8, u8), _: Vec<u8>) -> Result<u8, LockError>;
    async fn nothing(&self);
    async fn default_body(&self, mut id: String, (more, _): (String, u8)) -> Result<String, LockError> {
        id.push('!');
        Ok(id + &more)
    }
}

#[async_trait::async_trait(?Send)]
impl Traced for Watched {
    #[instrument(skip_all)]
    #[distributed_lock(key = "{id}:{self.locks_name()}", ttl_ms = 5_000, manager = self.ask(), lease = held)]
    async fn above(&self, id: u8, (from, to): (u8, u8)) -> Result<u8, LockError> {
        assert_eq!(held.key().as_str(), "7:watched");
        assert_eq!(open(), Some("above"));
        Ok(id + from + to)
    }

    #[distributed_lock(key = "{id}:{from}/{to}:{self.locks_name()}", ttl_ms = 5_000, manager = self.ask(), lease = held)]
    #[instrument(skip_all)]
    async fn below(&mut self, id: u8, (from, to): (u8, u8), _: Vec<u8>) -> Result<u8, LockError> {
        assert_eq!(held.key().as_str(), "7:1/2:watched");
        assert_eq!(open(), Some("below"));
        self.locks_name();
        Ok(id + from + to)
    }

    #[distributed_lock(key = "nothing", ttl_ms = 5_000, manager = self.ask(), on_contention = skip)]
    async fn nothing(&self) {
        assert!(lockrt::current_lease().is_some());
    }

    #[distributed_lock(key = "d:{id}:{more}", ttl_ms = 5_000, manager = self.ask(), on_error = |error| Err(error))]
    async fn default_body(&self, mut id: String, (more, _): (String, u8)) -> Result<String, LockError> {
        id.push('?');
        Ok(id + &more)
    }
}

impl Watched {
    fn locks_name(&self) -> &'static str {
        if self.span.get().is_some() { "asked" } else { "watched" }
    }
}

#[tokio::test]
async fn under_async_trait_instrument_may_stand_on_either_side() {
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry());
    let mut watched = Watched::start();
    assert_eq!(watched.above(7, (1, 2)).await.unwrap(), 10);
    assert_eq!(watched.span.get(), None);
    assert_eq!(watched.below(7, (1, 2), Vec::new()).await.unwrap(), 10);
    assert_eq!(watched.span.get(), Some("below"));
    watched.nothing().await;
    assert_eq!(watched.default_body("a".into(), ("b".into(), 1)).await.unwrap(), "a?b");
}

#[async_trait::async_trait]
trait Boxed: Sized {
    #[distributed_lock(key = "boxed:{Self::NAME}:{self.id()}", ttl_ms = 5_000, lease = held)]
    async fn in_the_trait(&self) -> Result<String, LockError>
    where
        Self: Sync,
    {
        Ok(held.key().as_str().to_owned())
    }
    const NAME: &'static str;
    fn id(&self) -> u8;
}

impl Boxed for u8 {
    const NAME: &'static str = "u8";
    fn id(&self) -> u8 {
        *self
    }
}

#[tokio::test]
async fn a_default_body_under_async_trait_takes_its_lock_at_the_first_poll() {
    let call = 3_u8.in_the_trait();
    let _locks = lockrt::testing::memory();
    assert_eq!(call.await.unwrap(), "boxed:u8:3");
}

mod recursive {
    use super::*;
    use async_recursion::async_recursion;

    #[async_recursion]
    #[distributed_lock(key = "above:{depth}", ttl_ms = 5_000, lease = held)]
    async fn above(depth: u8) -> Result<String, LockError> {
        let deeper = if depth == 0 { String::new() } else { above(depth - 1).await? };
        Ok(deeper + held.key().as_str())
    }

    #[distributed_lock(key = "below:{depth}:{text}", ttl_ms = 5_000, lease = held)]
    #[async_recursion]
    async fn below(depth: u8, text: &str) -> Result<String, LockError> {
        let deeper = if depth == 0 { String::new() } else { below(depth - 1, text).await? };
        Ok(deeper + held.key().as_str())
    }

    #[async_recursion(?Send)]
    #[distributed_lock(key = "borrows:{depth}:{text}", ttl_ms = 5_000, lease = held)]
    async fn borrows(depth: u8, text: &str) -> Result<String, Box<dyn std::error::Error>> {
        let deeper = if depth == 0 { String::new() } else { borrows(depth - 1, text).await? };
        Ok(deeper + held.key().as_str())
    }

    #[tokio::test]
    async fn async_recursion_may_stand_on_either_side() {
        let _locks = lockrt::testing::memory();
        assert_eq!(above(1).await.unwrap(), "above:0above:1");
        assert_eq!(below(1, "x").await.unwrap(), "below:0:xbelow:1:x");
        assert_eq!(borrows(1, "x").await.unwrap(), "borrows:0:xborrows:1:x");
    }
}

// `#[tokio::main]` and `#[tokio::test]` take the `async` away: they stand below. Above is one clear error, see `tests/mistakes`.
#[distributed_lock(key = "main", ttl_ms = 5_000)]
#[tokio::main(flavor = "current_thread")]
async fn main_below() -> Result<bool, LockError> {
    Ok(lockrt::current_lease().is_some())
}

#[distributed_lock(key = "test", ttl_ms = 5_000, manager = &lockrt::testing::memory())]
#[tokio::test]
async fn tokio_test_below() -> Result<(), LockError> {
    lockrt::current_lease().map_or(Err(LockError::NotInstalled), |lease| lease.check())
}

#[test]
fn tokio_main_below_is_the_runtime_of_lock_and_body() {
    let _locks = lockrt::testing::memory();
    assert!(main_below().unwrap());
}

mod axum_handlers {
    use super::*;
    use axum::extract::Path;
    use axum::response::IntoResponse;
    use axum::routing::get;

    #[axum::debug_handler]
    #[distributed_lock(key = "axum:{id}", ttl_ms = 5_000)]
    async fn debug_above(Path(id): Path<u64>) -> Result<String, LockError> {
        Ok(id.to_string())
    }

    #[distributed_lock(key = "axum:{id}", ttl_ms = 5_000)]
    #[axum::debug_handler]
    async fn debug_below(Path(id): Path<u64>) -> Result<String, LockError> {
        Ok(id.to_string())
    }

    #[axum::debug_handler]
    #[distributed_lock(key = "axum:{id}", ttl_ms = 5_000)]
    async fn hidden(Path(id): Path<u64>) -> impl IntoResponse {
        (axum::http::StatusCode::CREATED, id.to_string())
    }

    #[tokio::test]
    async fn debug_handler_may_stand_on_either_side() {
        let _: axum::Router =
            axum::Router::new().route("/{id}", get(debug_above).post(debug_below).put(hidden));
        let locks = lockrt::testing::memory();
        assert_eq!(debug_above(Path(1)).await.unwrap(), "1");
        assert_eq!(debug_below(Path(1)).await.unwrap(), "1");
        assert_eq!(hidden(Path(1)).await.into_response().status(), 201);
        drop(locks);
        assert_eq!(hidden(Path(1)).await.into_response().status(), 500);
    }
}

mod documented_handlers {
    use super::*;
    use axum::extract::Path;
    use axum::http::StatusCode;
    use utoipa::OpenApi;

    /// Reads a quote.
    #[utoipa::path(get, path = "/above/{id}", params(("id" = u64, Path, description = "of the quote")), responses((status = 200, body = String)))]
    #[distributed_lock(key = "utoipa:{id}", ttl_ms = 5_000)]
    async fn above(Path(id): Path<u64>) -> Result<String, LockError> {
        Ok(id.to_string())
    }

    /// Reads a quote.
    #[distributed_lock(key = "utoipa:{id}", ttl_ms = 5_000)]
    #[utoipa::path(get, path = "/below/{id}", params(("id" = u64, Path, description = "of the quote")), responses((status = 200, body = String)))]
    async fn below(Path(id): Path<u64>) -> Result<String, LockError> {
        Ok(id.to_string())
    }

    #[derive(OpenApi)]
    #[openapi(paths(above, below))]
    struct Documents;

    #[tokio::test]
    async fn utoipa_path_may_stand_on_either_side() {
        let documents = serde_json::to_value(Documents::openapi()).unwrap();
        for path in ["/above/{id}", "/below/{id}"] {
            let operation = &documents["paths"][path]["get"];
            assert_eq!(operation["summary"], "Reads a quote.");
            assert_eq!(operation["parameters"][0]["name"], "id");
        }
        let locks = lockrt::testing::memory();
        assert_eq!(above(Path(1)).await.unwrap(), "1");
        assert_eq!(below(Path(1)).await.unwrap(), "1");
        let _held = locks.hold(&lockrt::LockKey::new("utoipa:1").unwrap());
        assert_eq!(StatusCode::from(above(Path(1)).await.unwrap_err()), 409);
        assert_eq!(StatusCode::from(below(Path(1)).await.unwrap_err()), 409);
    }
}

mod actix_handlers {
    use super::*;
    use actix_web::{App, HttpResponse, Responder, get, put, test, web};

    #[get("/above/{id}")]
    #[distributed_lock(key = "actix:{*id}", ttl_ms = 5_000, lease = held)]
    async fn above(id: web::Path<u64>) -> HttpResponse {
        HttpResponse::Ok().body(held.key().as_str().to_owned())
    }

    #[distributed_lock(key = "actix:{*id}", ttl_ms = 5_000, lease = held)]
    #[get("/below/{id}")]
    async fn below(id: web::Path<u64>) -> HttpResponse {
        HttpResponse::Ok().body(held.key().as_str().to_owned())
    }

    #[put("/hidden/{id}")]
    #[distributed_lock(key = "actix:{*id}", ttl_ms = 5_000)]
    async fn hidden(id: web::Path<u64>) -> impl Responder {
        format!("{id}")
    }

    #[actix_web::test]
    async fn a_route_macro_may_stand_on_either_side() {
        let app = App::new().service(above).service(below).service(hidden);
        let app = test::init_service(app).await;
        let locks = lockrt::testing::memory();
        for path in ["/above/7", "/below/7"] {
            let request = test::TestRequest::get().uri(path).to_request();
            assert_eq!(test::call_and_read_body(&app, request).await, "actix:7");
        }
        let request = || test::TestRequest::put().uri("/hidden/7").to_request();
        assert_eq!(test::call_and_read_body(&app, request()).await, "7");
        drop(locks);
        assert_eq!(test::call_service(&app, request()).await.status(), 500);
    }
}

#[distributed_lock(key = "upper:{id}", ttl_ms = 5_000)]
#[distributed_lock(key = "lower:{id}", ttl_ms = 5_000, lease = lower)]
async fn two_locks(id: u8) -> Result<[String; 2], LockError> {
    let innermost = lockrt::current_lease().ok_or(LockError::NotInstalled)?;
    Ok([lower.key().as_str().to_owned(), innermost.key().as_str().to_owned()])
}

#[tokio::test]
async fn of_two_locks_the_lower_one_is_taken_first() {
    let _locks = lockrt::testing::memory();
    assert_eq!(two_locks(1).await.unwrap(), ["lower:1", "upper:1"]);
}
