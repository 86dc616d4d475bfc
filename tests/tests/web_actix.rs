//! Locked actix-web handlers, asked in process.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use actix_web::body::to_bytes;
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{CONTENT_TYPE, RETRY_AFTER};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::web::Path;
use actix_web::{App, HttpResponse, Responder, ResponseError, post};
use lockrt::{LockError, LockPolicy, distributed_lock, set_default, testing};
use lockrt_tests::{Call, Fate, Faulty, key};
use serde_json::Value;

#[derive(Debug)]
struct AppError(LockError);

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl ResponseError for AppError {
    fn error_response(&self) -> HttpResponse {
        self.0.error_response()
    }
}

#[post("/error/{id}")]
#[distributed_lock(key = "quote:{*id}", ttl_ms = 60_000)]
async fn as_error(id: Path<u64>) -> Result<String, LockError> {
    Ok(id.to_string())
}

#[distributed_lock(key = "quote:{*id}", ttl_ms = 60_000)]
#[post("/actix-error/{id}")]
async fn as_actix_error(id: Path<u64>) -> Result<String, actix_web::Error> {
    Ok(id.to_string())
}

#[post("/own-error/{id}")]
#[distributed_lock(key = "quote:{*id}", ttl_ms = 60_000)]
async fn as_own_error(id: Path<u64>) -> Result<String, AppError> {
    Ok(id.to_string())
}

#[post("/response/{id}")]
#[distributed_lock(key = "quote:{*id}", ttl_ms = 60_000)]
async fn as_response(id: Path<u64>) -> HttpResponse {
    HttpResponse::Ok().body(id.to_string())
}

/// Its future is not `Send`, which actix allows.
#[post("/local/{id}")]
#[distributed_lock(key = "quote:{*id}", ttl_ms = 60_000)]
async fn as_responder(id: Path<u64>) -> Result<impl Responder, LockError> {
    let id = Rc::new(*id);
    tokio::task::yield_now().await;
    Ok(id.to_string())
}

/// Never ends by itself.
#[post("/endless/{id}")]
#[distributed_lock(key = "import:{*id}", ttl_ms = 300, renew = auto(max_ms = 60_000))]
async fn endless(id: Path<u64>) -> Result<String, LockError> {
    pending::<()>().await;
    Ok(id.to_string())
}

async fn ask(path: &str) -> ServiceResponse {
    let app = App::new()
        .service(as_error)
        .service(as_actix_error)
        .service(as_own_error)
        .service(as_response)
        .service(as_responder)
        .service(endless);
    let service = init_service(app).await;
    call_service(&service, TestRequest::post().uri(path).to_request()).await
}

fn retry_after(answer: &ServiceResponse) -> Option<&str> {
    answer.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap())
}

async fn body(answer: ServiceResponse) -> String {
    let bytes = to_bytes(answer.into_body()).await.unwrap_or_else(|_| panic!("no body"));
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn problem(answer: ServiceResponse) -> Value {
    assert_eq!(answer.headers().get(CONTENT_TYPE).unwrap(), "application/problem+json");
    let status = answer.status().as_u16();
    let problem: Value = serde_json::from_str(&body(answer).await).unwrap();
    assert_eq!(problem["status"], status);
    problem
}

const SHAPES: [&str; 5] = ["error", "actix-error", "own-error", "response", "local"];

#[tokio::test]
async fn a_locked_handler_answers_as_if_it_were_not() {
    let _locks = testing::memory();
    for shape in SHAPES {
        let answer = ask(&format!("/{shape}/7")).await;
        assert_eq!(answer.status(), 200, "{shape}");
        assert_eq!(body(answer).await, "7", "{shape}");
    }
}

#[tokio::test]
async fn contention_is_a_409_problem_that_says_when_to_come_back() {
    let locks = testing::memory();
    let policy = LockPolicy::new(Duration::from_secs(60));
    let _held = locks.acquire(&key("quote:7"), &policy).await.unwrap();
    for shape in SHAPES {
        let answer = ask(&format!("/{shape}/7")).await;
        assert_eq!((answer.status().as_u16(), retry_after(&answer)), (409, Some("60")), "{shape}");
        let problem = problem(answer).await;
        assert_eq!(problem["type"], "urn:lockrt:contended", "{shape}");
        assert!(!problem.to_string().contains("quote:"), "the key stays inside: {problem}");
    }
    assert_eq!(ask("/error/8").await.status(), 200, "another key is free");
}

#[tokio::test]
async fn an_outage_is_a_503_problem_and_no_contention() {
    let faulty = Faulty::start(|_, _| Fate::Unknown);
    let _default = set_default(testing::manager(faulty));
    let answer = ask("/endless/7").await;
    assert_eq!((answer.status().as_u16(), retry_after(&answer)), (503, Some("1")));
    assert_eq!(problem(answer).await["type"], "urn:lockrt:unavailable");
}

#[tokio::test]
async fn a_lost_lease_is_a_500_problem_of_its_own_type() {
    let faulty = Faulty::start(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let _default = set_default(testing::manager(faulty));
    let answer = ask("/endless/7").await;
    assert_eq!((answer.status().as_u16(), retry_after(&answer)), (500, None));
    assert_eq!(problem(answer).await["type"], "urn:lockrt:lost");
}

#[tokio::test]
async fn a_missing_manager_is_a_500_problem() {
    let answer = ask("/response/7").await;
    assert_eq!(answer.status(), 500);
    assert_eq!(problem(answer).await["type"], "urn:lockrt:not_installed");
}
