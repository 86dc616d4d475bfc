//! The examples of the golden expansions, and more, under every lint that clippy has for style: none may fire.
#![deny(warnings, clippy::all, clippy::pedantic, clippy::nursery, clippy::unwrap_used, clippy::expect_used)]
#![allow(clippy::module_name_repetitions, reason = "about names, which are not the attribute's")]
#![deny(unused_qualifications, trivial_casts, trivial_numeric_casts, unused_lifetimes, single_use_lifetimes)]
#![deny(unused_results, let_underscore_drop, unreachable_pub, missing_debug_implementations)]

use std::fmt::{self, Display};
use std::rc::Rc;
use std::time::Duration;

use axum::extract::Path;
use axum::response::IntoResponse;
use lockrt::{LockError, LockManager, distributed_lock};

const TTL: u64 = 5_000;
const CAP: u64 = 60_000;
const WAIT: u64 = 500;

#[derive(Debug)]
enum Outcome {
    Done,
    Later(Option<Duration>),
}

#[derive(Debug)]
struct Shop {
    name: String,
    locks: LockManager,
}

#[distributed_lock(key = "quote:{tenant}:{id}", ttl_ms = 10_000)]
async fn smallest(tenant: &str, id: u64) -> Result<u64, LockError> {
    tokio::task::yield_now().await;
    Ok(id + tenant.len() as u64)
}

impl Shop {
    #[distributed_lock(
        key = "q:{self.name}/{id:display}", ttl_ms = TTL, on_contention = wait(timeout_ms = WAIT),
        renew = auto(max_ms = CAP), on_lost = report, on_cancel = hold, release = started, min_hold_ms = 1,
        fencing = required, lease = held, manager = &self.locks, name = "quotes", crate = lockrt
    )]
    async fn every_argument<T: Display + Send>(&mut self, id: T) -> Result<String, LockError> {
        held.check()?;
        self.name.push('!');
        Ok(id.to_string())
    }

    #[distributed_lock(key = "room:{id:hash}", ttl_ms = 5_000, on_error = |error| error.is_lost() && logged(&error))]
    async fn exists(&self, id: &str) -> bool {
        self.name == id
    }
}

fn logged(error: &LockError) -> bool {
    tracing::error!(%error, "taken for absent");
    false
}

#[distributed_lock(key = "gc", ttl_ms = 10, on_contention = skip)]
async fn skips() {
    tokio::task::yield_now().await;
}

#[distributed_lock(key = "q:{a}", ttl_ms = 10, on_contention = skip(Ok(later(a).await)))]
async fn skips_with(a: String) -> Result<String, LockError> {
    Ok(a)
}

async fn later(text: String) -> String {
    tokio::task::yield_now().await;
    text
}

#[distributed_lock(key = "job:{id}", ttl_ms = 10, on_contention = skip(|busy| Ok(Outcome::Later(busy.retry_after()))))]
async fn skips_seeing(id: u64) -> Result<Outcome, LockError> {
    tokio::task::yield_now().await;
    if id == 0 { Ok(Outcome::Later(None)) } else { Ok(Outcome::Done) }
}

#[distributed_lock(key = "q:{b}:{_d}", ttl_ms = 10, on_contention = wait(forever))]
async fn patterns(
    Path((ref a, b)): Path<(String, u8)>,
    _: String,
    #[cfg(not(any()))] (_d, _): (u8, u8),
    mut e: usize,
) -> Result<impl Display, LockError> {
    e += a.len() + usize::from(b);
    Ok(e)
}

#[distributed_lock(key = "job", ttl_ms = 10, release = started, on_cancel = hold, min_hold_ms = 5)]
async fn not_send() -> Result<Rc<u8>, LockError> {
    Ok(Rc::new(1))
}

#[distributed_lock(key = "page:{id}", ttl_ms = 10)]
async fn page(Path(id): Path<u64>) -> impl IntoResponse {
    id.to_string()
}

#[distributed_lock(key = "bridge", ttl_ms = 20, on_contention = wait(forever), on_error = |error| panic!("{error}"))]
async fn bridge() -> ! {
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[async_trait::async_trait]
trait Task {
    async fn run(&self, times: u8, (from, to): (u8, u8)) -> Result<u8, fmt::Error>;
    async fn bare(&self);
}

#[async_trait::async_trait]
impl Task for Shop {
    #[distributed_lock(key = "task:{self.name}:{from}", ttl_ms = 10, manager = &self.locks, on_error = |_| Err(fmt::Error))]
    async fn run(&self, times: u8, (from, to): (u8, u8)) -> Result<u8, fmt::Error> {
        Ok(times * (to - from))
    }

    #[tracing::instrument(skip_all)]
    #[distributed_lock(key = "bare", ttl_ms = 10, manager = &self.locks, on_contention = skip)]
    async fn bare(&self) {}
}

#[rustfmt::skip] // all on one line
#[distributed_lock(key = "one", ttl_ms = 10)]
async fn one_line() -> Result<(), LockError> { Ok(()) }

#[tokio::test]
async fn the_examples_run() -> Result<(), LockError> {
    let locks = lockrt::testing::memory();
    let mut shop = Shop { name: "s".into(), locks: LockManager::clone(&locks) };
    assert_eq!(smallest("t", 1).await?, 2);
    assert_eq!(shop.every_argument(1).await?, "1");
    assert!(shop.exists("s!").await);
    skips().await;
    assert_eq!(skips_with("a".into()).await?, "a");
    assert!(matches!(skips_seeing(1).await?, Outcome::Done));
    assert!(matches!(skips_seeing(0).await?, Outcome::Later(None)));
    assert_eq!(patterns(Path(("a".into(), 1)), String::new(), (1, 2), 1).await?.to_string(), "3");
    assert_eq!(*not_send().await?, 1);
    assert_eq!(page(Path(1)).await.into_response().status(), 200);
    assert_eq!(shop.run(2, (1, 3)).await, Ok(4));
    shop.bare().await;
    one_line().await?;
    let bridge = tokio::time::timeout(Duration::from_millis(2), bridge()).await;
    assert!(bridge.is_err());
    Ok(())
}
