//! What a fence refuses, as each web framework says it.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::error::Error as _;

use actix_web::ResponseError as _;
use axum::response::IntoResponse as _;
use lockrt::FencingToken;
use lockrt::fence::redis::{RedisFence, Write};
use lockrt::fence::{Fence, FenceError};
use lockrt_tests::RedisServer;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Too late, written before, and without a token.
fn refusals() -> [FenceError; 3] {
    let fence = Fence::new();
    let (old, new) = (FencingToken::new(33), FencingToken::new(34));
    fence.write_once("mail:jane", new, || ()).unwrap();
    [
        fence.write("mail:jane", old, || ()).unwrap_err(),
        fence.write_once("mail:jane", new, || ()).unwrap_err(),
        fence.register("mail:jane", None).unwrap_err(),
    ]
}

#[test]
fn axum_answers_409_to_a_late_or_repeated_write_and_500_to_a_mistake() {
    let statuses = refusals().map(|refusal| refusal.into_response().status().as_u16());
    assert_eq!(statuses, [409, 409, 500]);
}

#[test]
fn actix_answers_as_axum_does() {
    let statuses = refusals().map(|refusal| refusal.error_response().status().as_u16());
    assert_eq!(statuses, [409, 409, 500]);
}

#[test]
fn a_grpc_client_is_not_told_to_send_the_same_again() {
    let statuses = refusals().map(Status::from);
    let codes = statuses.each_ref().map(Status::code);
    assert_eq!(codes, [Code::FailedPrecondition, Code::AlreadyExists, Code::Internal]);
    for status in &statuses {
        assert!(status.get_details_retry_info().is_none() && !status.message().contains("jane"));
        let source = status.source().unwrap().downcast_ref::<FenceError>();
        assert!(source.is_some(), "interceptors of this process find the refusal");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_an_outage_to_be_tried_again() {
    let server = RedisServer::start();
    let mut raw = server.raw().await;
    drop(server);
    let fence = RedisFence::beside("price").unwrap();
    let outage = fence.write(&mut raw, FencingToken::new(1), Write::set(1)).await.unwrap_err();
    let status = Status::from(outage.clone());
    assert!(status.code() == Code::Unavailable && status.get_details_retry_info().is_some());
    assert_eq!(outage.clone().error_response().status().as_u16(), 503);
    let response = outage.into_response();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
}
