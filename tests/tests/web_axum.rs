//! Locked axum handlers, asked over a socket.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, post};
use lockrt::{
    DefaultGuard, LockError, LockGuard, LockManager, LockPolicy, distributed_lock, set_default, testing,
};
use lockrt_tests::{Call, Fate, Faulty, key, soon};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a client sees.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn problem(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem["status"], self.status);
        problem
    }
}

/// Serves `routes` as tasks of this runtime, so that handlers see this thread's default manager.
async fn serve(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// Sends a request and leaves the answer to whoever reads it.
async fn send(service: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service).await.unwrap();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn ask(service: SocketAddr, path: &str) -> Answer {
    let mut text = String::new();
    soon("an answer", send(service, path).await.read_to_string(&mut text)).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.into(), body: body.into() }
}

#[derive(Debug)]
struct AppError(LockError);

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        self.0.respond(StatusCode::LOCKED)
    }
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_error(Path(id): Path<u64>) -> Result<Json<u64>, LockError> {
    Ok(Json(id))
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_own_error(Path(id): Path<u64>) -> Result<Json<u64>, AppError> {
    Ok(Json(id))
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_response(Path(id): Path<u64>) -> Response {
    Json(id).into_response()
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_response_error(Path(id): Path<u64>) -> Result<Json<u64>, Response> {
    Ok(Json(id))
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_status(Path(id): Path<u64>) -> StatusCode {
    if id == 7 { StatusCode::OK } else { StatusCode::NOT_FOUND }
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_status_error(Path(id): Path<u64>) -> Result<Json<u64>, StatusCode> {
    Ok(Json(id))
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_text(Path(id): Path<u64>) -> (StatusCode, String) {
    (StatusCode::OK, id.to_string())
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_text_error(Path(id): Path<u64>) -> Result<Json<u64>, (StatusCode, String)> {
    Ok(Json(id))
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_json(Path(id): Path<u64>) -> (StatusCode, Json<Value>) {
    (StatusCode::OK, Json(id.into()))
}

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000)]
async fn as_json_error(Path(id): Path<u64>) -> Result<Json<u64>, (StatusCode, Json<Value>)> {
    Ok(Json(id))
}

/// Never ends by itself.
#[axum::debug_handler]
#[distributed_lock(key = "import:{id}", ttl_ms = 300, renew = auto(max_ms = 60_000))]
async fn endless(Path(id): Path<u64>) -> Result<Json<u64>, LockError> {
    pending::<()>().await;
    Ok(Json(id))
}

fn routes() -> Router {
    Router::new()
        .route("/error/{id}", post(as_error))
        .route("/own-error/{id}", post(as_own_error))
        .route("/response/{id}", post(as_response))
        .route("/response-error/{id}", post(as_response_error))
        .route("/status/{id}", post(as_status))
        .route("/status-error/{id}", post(as_status_error))
        .route("/text/{id}", post(as_text))
        .route("/text-error/{id}", post(as_text_error))
        .route("/json/{id}", post(as_json))
        .route("/json-error/{id}", post(as_json_error))
        .route("/endless/{id}", post(endless))
}

async fn held(locks: &LockManager, text: &str, ttl: Duration) -> LockGuard {
    locks.acquire(&key(text), &LockPolicy::new(ttl)).await.unwrap()
}

#[tokio::test]
async fn a_locked_handler_answers_as_if_it_were_not() {
    let _locks = testing::memory();
    let service = serve(routes()).await;
    for shape in [
        "error",
        "own-error",
        "response",
        "response-error",
        "status-error",
        "text",
        "text-error",
        "json",
        "json-error",
    ] {
        let answer = ask(service, &format!("/{shape}/7")).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "7"), "{shape}");
    }
    assert_eq!(ask(service, "/status/7").await.status, 200);
}

#[tokio::test]
async fn contention_is_a_409_problem_that_says_when_to_come_back() {
    let locks = testing::memory();
    let service = serve(routes()).await;
    let _held = held(&locks, "quote:7", Duration::from_millis(2_900)).await;
    for shape in ["error", "response", "response-error"] {
        let answer = ask(service, &format!("/{shape}/7")).await;
        assert_eq!(answer.status, 409, "{shape}");
        assert!(matches!(answer.header("retry-after"), Some("1" | "2" | "3")), "{}", answer.head);
        assert_eq!(answer.problem()["type"], "urn:lockrt:contended");
        assert!(!answer.body.contains("quote:"), "the key stays inside: {}", answer.body);
    }
    assert_eq!(ask(service, "/error/8").await.status, 200, "another key is free");
}

#[tokio::test]
async fn the_remaining_time_is_rounded_up_to_seconds() {
    let locks = testing::memory();
    let service = serve(routes()).await;
    // The holder stays for 60 s, of which some milliseconds have passed.
    let _held = held(&locks, "quote:7", Duration::from_secs(60)).await;
    let answer = ask(service, "/error/7").await;
    assert_eq!(answer.header("retry-after"), Some("60"));
}

#[tokio::test]
async fn an_application_may_choose_another_status() {
    let locks = testing::memory();
    let service = serve(routes()).await;
    let _held = held(&locks, "quote:7", Duration::from_secs(60)).await;
    let answer = ask(service, "/own-error/7").await;
    assert_eq!((answer.status, answer.problem()["status"].as_u64()), (423, Some(423)));
    assert_eq!(answer.header("retry-after"), Some("60"));
}

#[tokio::test]
async fn plain_return_types_carry_the_status_and_what_they_have_room_for() {
    let locks = testing::memory();
    let service = serve(routes()).await;
    let _held = held(&locks, "quote:7", Duration::from_secs(60)).await;
    for shape in ["status", "status-error"] {
        let answer = ask(service, &format!("/{shape}/7")).await;
        assert_eq!((answer.status, answer.body.as_str()), (409, ""), "{shape}");
    }
    for shape in ["text", "text-error"] {
        let answer = ask(service, &format!("/{shape}/7")).await;
        assert_eq!(answer.status, 409, "{shape}");
        assert!(answer.body.starts_with("Somebody else is doing this"), "{}", answer.body);
    }
    for shape in ["json", "json-error"] {
        let answer = ask(service, &format!("/{shape}/7")).await;
        assert_eq!(answer.status, 409, "{shape}");
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(problem["type"], "urn:lockrt:contended");
    }
}

/// A manager whose lock service never answers, as this thread's default.
fn outage() -> (Faulty, DefaultGuard) {
    let service = Faulty::start(|_, _| Fate::Unknown);
    let default = set_default(testing::manager(service.clone()));
    (service, default)
}

#[tokio::test]
async fn an_outage_is_a_503_problem_and_no_contention() {
    let _outage = outage();
    let service = serve(routes()).await;
    let answer = ask(service, "/endless/7").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.problem()["type"], "urn:lockrt:unavailable");
}

#[tokio::test]
async fn a_shutdown_is_a_503_problem() {
    let locks = testing::memory();
    let service = serve(routes()).await;
    locks.shutdown(Duration::ZERO).await;
    let answer = ask(service, "/error/7").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.problem()["type"], "urn:lockrt:shutting_down");
}

#[tokio::test]
async fn a_lost_lease_is_a_500_problem_of_its_own_type() {
    let faulty = Faulty::start(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let _default = set_default(testing::manager(faulty));
    let service = serve(routes()).await;
    let answer = ask(service, "/endless/7").await;
    assert_eq!((answer.status, answer.header("retry-after")), (500, None));
    assert_eq!(answer.problem()["type"], "urn:lockrt:lost");
}

#[tokio::test]
async fn a_missing_manager_is_a_500_problem() {
    let service = serve(routes()).await;
    let answer = ask(service, "/error/7").await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.problem()["type"], "urn:lockrt:not_installed");
}
