//! Fencing tokens that travel in HTTP headers: a client under a lock, and a service with a fence at its door.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Method, Request, Response};
use axum::routing::{get, put};
use axum::{Extension, Router};
use lockrt::fence::{Fence, FenceError};
use lockrt::web::{CarryToken, CheckToken, FENCING_TOKEN};
use lockrt::{FencingToken, LockPolicy, current_lease, testing};
use lockrt_tests::key;
use serde_json::Value;
use tower::{Layer as _, Service, ServiceExt as _};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(10));

/// A service that writes what it is sent a token for.
fn service(fence: &Arc<Fence>) -> Router {
    async fn write(
        State(fence): State<Arc<Fence>>,
        Extension(token): Extension<FencingToken>,
    ) -> Result<String, FenceError> {
        fence.write("/stock/7", token, || token.to_string())
    }
    async fn read(token: Option<Extension<FencingToken>>) -> String {
        token.map_or_else(|| String::from("nobody"), |Extension(token)| token.to_string())
    }
    Router::new()
        .route("/stock/7", put(write))
        .route("/stock/8", get(read))
        .route("/stock/7", get(read))
        .layer(CheckToken::by_path(Arc::clone(fence)))
        .with_state(Arc::clone(fence))
}

fn request(method: Method, path: &str, tokens: &[&str]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for token in tokens {
        request = request.header(FENCING_TOKEN, *token);
    }
    request.body(Body::empty()).unwrap()
}

async fn ask<S>(service: S, request: Request<Body>) -> (u16, String)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let Ok(response) = service.oneshot(request).await;
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 10_000).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_request_made_under_a_lock_carries_its_token_and_is_written() {
    let (locks, fence) = (testing::memory(), Arc::new(Fence::new()));
    let client = CarryToken.layer(service(&fence));
    let written = locks
        .run(&key("stock:7"), &POLICY, async |lease| {
            let answer = ask(client.clone(), request(Method::PUT, "/stock/7", &[])).await;
            assert_eq!(answer, (200, lease.fencing().unwrap().to_string()));
        })
        .await;
    assert!(written.is_ok());
    assert!(current_lease().is_none());
    assert_eq!(ask(client, request(Method::PUT, "/stock/7", &[])).await.0, 428, "no lease, no token");
}

#[tokio::test]
async fn the_token_of_a_lease_replaces_one_that_the_request_had_already() {
    let (locks, fence) = (testing::memory(), Arc::new(Fence::new()));
    let client = CarryToken.layer(service(&fence));
    let sent = locks
        .run(&key("stock:7"), &POLICY, async |lease| {
            let answer = ask(client.clone(), request(Method::GET, "/stock/7", &["5", "6"])).await;
            (answer, lease.fencing().unwrap().to_string())
        })
        .await;
    let (answer, token) = sent.unwrap();
    assert_eq!(answer, (200, token));
}

#[tokio::test]
async fn a_holder_that_came_too_late_is_told_both_tokens_and_nothing_is_written() {
    let fence = Arc::new(Fence::new());
    // The later holder has only read so far.
    assert_eq!(ask(service(&fence), request(Method::GET, "/stock/7", &["34"])).await, (200, "34".into()));
    let (status, body) = ask(service(&fence), request(Method::PUT, "/stock/7", &["33"])).await;
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &problem["type"]), (409, &Value::from("urn:lockrt:fence:stale")));
    assert_eq!((&problem["offered"], &problem["stored"]), (&Value::from("33"), &Value::from("34")));
    assert_eq!(ask(service(&fence), request(Method::PUT, "/stock/7", &["34"])).await.0, 200);
}

#[tokio::test]
async fn a_later_holder_that_comes_between_the_door_and_the_write_is_noticed_by_the_write() {
    let fence = Arc::new(Fence::new());
    let overtaken = {
        let inner = Arc::clone(&fence);
        let late = put(move |Extension(token): Extension<FencingToken>| async move {
            inner.register("/stock/7", FencingToken::new(34))?;
            inner.write("/stock/7", token, || ())
        });
        Router::new().route("/stock/7", late).layer(CheckToken::by_path(Arc::clone(&fence)))
    };
    assert_eq!(ask(overtaken, request(Method::PUT, "/stock/7", &["33"])).await.0, 409);
}

#[tokio::test]
async fn resources_are_told_apart_by_the_path_or_as_the_service_says() {
    let fence = Arc::new(Fence::new());
    assert_eq!(ask(service(&fence), request(Method::GET, "/stock/7", &["34"])).await.0, 200);
    assert_eq!(ask(service(&fence), request(Method::GET, "/stock/8", &["33"])).await.0, 200);
    let all_one = || {
        let door = CheckToken::by(Arc::new(Fence::new()), |_| String::from("stock"));
        Router::new().fallback(|| async {}).layer(door)
    };
    let all_one = all_one();
    assert_eq!(ask(all_one.clone(), request(Method::GET, "/stock/7", &["34"])).await.0, 200);
    assert_eq!(ask(all_one, request(Method::GET, "/stock/8", &["33"])).await.0, 409);
}

#[tokio::test]
async fn readers_need_no_token_and_register_nobody() {
    let fence = Arc::new(Fence::new());
    for method in [Method::GET, Method::HEAD] {
        assert_eq!(ask(service(&fence), request(method, "/stock/7", &[])).await.0, 200);
    }
    assert!(fence.is_empty());
}

#[tokio::test]
async fn writers_without_a_token_and_tokens_that_are_none_are_refused_by_name() {
    let fence = Arc::new(Fence::new());
    let refused = [
        (request(Method::PUT, "/stock/7", &[]), 428, "urn:lockrt:fence:missing"),
        (request(Method::PUT, "/stock/7", &["0"]), 400, "urn:lockrt:fence:malformed"),
        (request(Method::GET, "/stock/7", &["one"]), 400, "urn:lockrt:fence:malformed"),
        (request(Method::PUT, "/stock/7", &["34", "35"]), 400, "urn:lockrt:fence:malformed"),
        (request(Method::PUT, &format!("/{}", "x".repeat(1_024)), &["34"]), 500, "urn:lockrt:fence:invalid"),
    ];
    for (request, status, kind) in refused {
        let told = format!("{request:?}");
        let response = service(&fence).oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{told}");
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{told}");
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["type"], kind, "{told}");
    }
    assert!(fence.is_empty(), "nobody was registered");
}
