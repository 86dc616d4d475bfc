//! Locked gRPC methods, asked in process by tonic's own client.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::convert::Infallible;
use std::error::Error as _;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lockrt::{LockError, LockPolicy, distributed_lock, set_default, testing};
use lockrt_tests::{Call, Fate, Faulty, key};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::UnaryService;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

#[distributed_lock(key = "quote:{id}", ttl_ms = 60_000, name = "quotes")]
async fn recalculate(id: u64) -> Result<Response<u64>, Status> {
    if id == 0 {
        return Err(Status::not_found("no such quote"));
    }
    Ok(Response::new(id + 1))
}

/// Never ends by itself.
#[distributed_lock(key = "import:{id}", ttl_ms = 300, renew = auto(max_ms = 60_000))]
async fn import(id: u64) -> Result<Response<u64>, Status> {
    pending::<()>().await;
    Ok(Response::new(id))
}

/// What tonic-build would write for a service with these two methods.
#[derive(Clone)]
struct Quotes;

struct Recalculate;

impl UnaryService<u64> for Recalculate {
    type Response = u64;
    type Future = BoxFuture<Response<u64>, Status>;

    fn call(&mut self, request: Request<u64>) -> Self::Future {
        Box::pin(recalculate(request.into_inner()))
    }
}

struct Import;

impl UnaryService<u64> for Import {
    type Response = u64;
    type Future = BoxFuture<Response<u64>, Status>;

    fn call(&mut self, request: Request<u64>) -> Self::Future {
        Box::pin(import(request.into_inner()))
    }
}

impl Service<http::Request<Body>> for Quotes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut server = tonic::server::Grpc::new(ProstCodec::<u64, u64>::default());
            Ok(match request.uri().path() {
                "/quotes/Recalculate" => server.unary(Recalculate, request).await,
                _ => server.unary(Import, request).await,
            })
        })
    }
}

async fn ask(method: &'static str, id: u64) -> Result<u64, Status> {
    let mut client = tonic::client::Grpc::new(Quotes);
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(method);
    let codec = ProstCodec::<u64, u64>::default();
    client.unary(Request::new(id), path, codec).await.map(Response::into_inner)
}

fn retry_delay(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}

#[tokio::test]
async fn a_locked_method_answers_as_if_it_were_not() {
    let _locks = testing::memory();
    assert_eq!(ask("/quotes/Recalculate", 41).await.unwrap(), 42);
    let own = ask("/quotes/Recalculate", 0).await.unwrap_err();
    assert_eq!((own.code(), own.message()), (Code::NotFound, "no such quote"));
}

#[tokio::test(start_paused = true)]
async fn contention_is_aborted_and_says_when_to_come_back() {
    let locks = testing::memory();
    let policy = LockPolicy::new(Duration::from_millis(2_500));
    let _held = locks.acquire(&key("quote:7"), &policy).await.unwrap();
    let status = ask("/quotes/Recalculate", 7).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(retry_delay(&status), Some(policy.ttl()));
    assert!(!status.message().contains("quote"), "lock and key stay inside: {}", status.message());
    assert_eq!(ask("/quotes/Recalculate", 8).await.unwrap(), 9, "another key is free");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_unavailable_and_no_contention() {
    let faulty = Faulty::start(|_, _| Fate::Silent);
    let _default = set_default(testing::manager(faulty));
    let status = ask("/quotes/Recalculate", 7).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(retry_delay(&status), Some(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_unavailable() {
    let locks = testing::memory();
    locks.shutdown(Duration::ZERO).await;
    let status = ask("/quotes/Recalculate", 7).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_unknown_and_asks_for_no_repetition() {
    let faulty = Faulty::start(|call, _| if call == Call::Renew { Fate::Denied } else { Fate::Answered });
    let _default = set_default(testing::manager(faulty));
    let status = ask("/quotes/Import", 7).await.unwrap_err();
    assert_eq!((status.code(), retry_delay(&status)), (Code::Unknown, None));
}

#[tokio::test]
async fn a_missing_manager_is_internal() {
    let status = ask("/quotes/Recalculate", 7).await.unwrap_err();
    assert_eq!((status.code(), retry_delay(&status)), (Code::Internal, None));
}

#[test]
fn a_holder_without_an_end_in_sight_has_a_delay_all_the_same() {
    let (waited, retry_after) = (Duration::ZERO, Some(Duration::MAX));
    let refusal = LockError::Contended { name: "quotes", key: key("quote:7"), waited, retry_after };
    assert!(retry_delay(&Status::from(refusal)).is_some_and(|delay| delay > Duration::from_secs(1 << 32)));
}

#[test]
fn interceptors_of_this_process_find_the_refusal_behind_the_status() {
    let status = Status::from(LockError::ShuttingDown);
    let source = status.source().unwrap().downcast_ref::<LockError>();
    assert!(matches!(source, Some(LockError::ShuttingDown)));
}
