//! Redis URLs: what is accepted, and that no password is ever shown.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Redis, SetupError};
use lockrt_tests::{RedisServer, granted, key, refused};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn tls_that_is_not_verified_is_refused_with_a_sentence() {
    let refusal = Redis::from_url("rediss://:s3cret@host/#insecure").unwrap_err();
    assert!(matches!(refusal, SetupError::InvalidUrl { .. }));
    assert!(refusal.to_string().contains("nothing turns the check of certificate and host off"), "{refusal}");
    assert!(!format!("{refusal} {refusal:?}").contains("s3cret"));
}

#[test]
fn other_schemes_and_broken_urls_are_refused_without_their_password() {
    for url in ["postgres://u:s3cret@h/db", "redis://u:s3cret@h:99999", "redis:u:s3cret@h", "u:s3cret@h"] {
        let refusal = Redis::from_url(url).unwrap_err();
        assert!(!format!("{refusal} {refusal:?}").contains("s3cret"), "{refusal:?}");
    }
}

#[test]
fn what_a_url_would_ask_in_vain_is_refused() {
    for url in
        ["redis://h?nonsense=1", "redis://h?db=3", "redis://h?s3cret", "redis://h/3?protocol=3&s3cret=1"]
    {
        let said = Redis::from_url(url).unwrap_err().to_string();
        assert!(said.contains("`protocol=<version>`") && said.contains("host:port/number"), "{url}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let said = Redis::from_url("unix:///run/r.sock?db=1&password=s3cret").unwrap_err().to_string();
    assert!(said.contains("`db`, `user`, `pass` and `protocol`") && !said.contains("s3cret"), "{said}");
    let said = Redis::from_url("redis://h?sslrootcert=/ca.pem").unwrap_err().to_string();
    assert!(said.contains("without TLS; write `rediss://"), "{said}");
    for url in ["redis://h?protocol=resp3", "redis://h?", "unix:///r.sock?db=1&user=u&pass=s3cret&protocol=3"]
    {
        assert!(Redis::from_url(url).is_ok(), "{url}");
    }
}

#[test]
fn another_scheme_is_told_of_the_one_for_tls() {
    let said = Redis::from_url("http://h").unwrap_err().to_string();
    assert!(said.contains("`rediss://host:port`"), "{said}");
}

/// A `main` that returns it in a box prints that.
#[test]
fn in_debug_a_refusal_says_the_same_sentence() {
    let refusal = Redis::from_url("redis://u:s3cret@h:port").unwrap_err();
    assert_eq!(format!("{refusal:?}"), refusal.to_string());
    assert!(format!("{:?}", SetupError::MissingUrl).starts_with("LOCK_URL is not set"));
}

#[tokio::test]
async fn a_password_opens_the_server_and_is_never_shown() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]);
    let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    let client = Redis::from_url(&url(":s3cret@")).unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
    assert!(format!("{client:?}").contains(":***@127.0.0.1"));
    granted(&client, &claim(&key("orders"), TTL)).await;
    for wrong in ["", ":wr0ng@", "nobody:wr0ng@"] {
        let error = refused(&Redis::from_url(&url(wrong)).unwrap(), &claim(&key("orders"), TTL)).await;
        assert!(error.is_permanent(), "{error}");
        assert!(error.to_string().contains("password"), "{error}");
        assert!(!format!("{error} {error:?}").contains("wr0ng"));
    }
}

#[tokio::test]
async fn a_local_socket_works_like_a_port() {
    let path = std::env::temp_dir().join(format!("lockrt-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let _server = RedisServer::start_with(&["--unixsocket", path]);
    for scheme in ["unix", "redis+unix"] {
        let client = Redis::from_url(&format!("{scheme}://{path}")).unwrap();
        granted(&client, &claim(&key(scheme), TTL)).await;
    }
}
