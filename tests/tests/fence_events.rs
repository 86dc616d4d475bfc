//! What a fence refuses is an event, for whatever store it stands before, and one that may go wrong.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lockrt::FencingToken;
use lockrt::fence::object_store::ObjectFence;
use lockrt::fence::postgres::{PostgresFence, SCHEMA};
use lockrt::fence::redis::{RedisFence, Write};
use lockrt::fence::{Fence, FenceError};
use lockrt_tests::{GetsAndPuts, Narrow, PostgresServer, RedisServer};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, PutOptions, PutPayload, PutResult, Result};
use tracing::field::Field;
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

const OLD: FencingToken = FencingToken::new(33);
const NEW: FencingToken = FencingToken::new(34);
const STALE: &str = "WARN fence refused a stale holder offered=33 stored=34";
const UNANSWERED: &str = "WARN fence gave no answer ";
const REPEATED: &str = "INFO fence refused a second write of one grant offered=34";

type Heard = Arc<Mutex<Vec<String>>>;

/// Keeps events with their numbers, and sees that resources are named by a digest.
struct Listener {
    heard: Heard,
    then: Box<dyn Fn() + Send + Sync>,
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "lockrt::observe" {
            return;
        }
        let mut words = vec![event.metadata().level().to_string()];
        event.record(&mut |field: &Field, value: &dyn Debug| match field.name() {
            "message" | "error" => words.push(format!("{value:?}")),
            "resource" => assert!(format!("{value:?}").starts_with("sha256:"), "{value:?}"),
            name => words.push(format!("{name}={value:?}")),
        });
        self.heard.lock().unwrap().push(words.join(" "));
        (self.then)();
    }
}

/// What this thread hears from now on, and what it does then.
fn listen(then: impl Fn() + Send + Sync + Clone + 'static) -> (Heard, (DefaultGuard, Dispatch)) {
    let heard = Heard::default();
    let subscriber = || {
        let listener = Listener { heard: heard.clone(), then: Box::new(then.clone()) };
        Dispatch::new(tracing_subscriber::registry().with(listener))
    };
    // While there is one subscriber, `tracing` may ask another thread whether anybody listens.
    let second = subscriber();
    let guard = tracing::dispatcher::set_default(&subscriber());
    (heard, (guard, second))
}

fn said(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut heard.lock().unwrap())
}

fn kinds<const N: usize>(refusals: [std::result::Result<(), FenceError>; N]) -> [&'static str; N] {
    refusals.map(|refusal| refusal.map_or_else(|refusal| refusal.kind(), |()| "passed"))
}

#[test]
fn in_process_each_refusal_is_told_once() {
    let (heard, _listening) = listen(|| ());
    let fence = Fence::new();
    fence.write_once("a", NEW, || ()).unwrap();
    assert_eq!(said(&heard), [""; 0], "nobody was refused");
    let refusals = [
        fence.register("a", OLD),
        fence.write("a", OLD, || ()),
        fence.write_once("a", NEW, || ()),
        fence.write("a", None, || ()),
    ];
    assert_eq!(kinds(refusals), ["stale", "stale", "repeated", "no_token"]);
    assert_eq!(said(&heard), [STALE, STALE, REPEATED]);
}

#[tokio::test]
async fn on_redis_each_refusal_is_told_once() {
    let server = RedisServer::start();
    let (mut raw, fence) = (server.raw().await, RedisFence::beside("a").unwrap());
    let (heard, _listening) = listen(|| ());
    fence.write_once(&mut raw, NEW, Write::set(1)).await.unwrap();
    let refusals = [
        fence.register(&mut raw, OLD).await,
        fence.write(&mut raw, OLD, Write::set(2)).await.map(drop),
        fence.write_once(&mut raw, NEW, Write::set(2)).await.map(drop),
    ];
    assert_eq!(kinds(refusals), ["stale", "stale", "repeated"]);
    assert_eq!(said(&heard), [STALE, STALE, REPEATED]);
}

#[tokio::test]
async fn on_postgres_each_refusal_is_told_once() {
    let server = PostgresServer::start_empty().await;
    let (mut client, fence) = (server.raw().await, PostgresFence::new("a").unwrap());
    client.batch_execute(SCHEMA).await.unwrap();
    let (heard, _listening) = listen(|| ());
    let transaction = client.transaction().await.unwrap();
    fence.guard_once(&transaction, NEW).await.unwrap();
    transaction.commit().await.unwrap();
    let registered = fence.register(&client, OLD).await;
    let transaction = client.transaction().await.unwrap();
    let refusals =
        [registered, fence.guard(&transaction, OLD).await, fence.guard_once(&transaction, NEW).await];
    assert_eq!(kinds(refusals), ["stale", "stale", "repeated"]);
    assert_eq!(said(&heard), [STALE, STALE, REPEATED]);
}

#[tokio::test]
async fn on_objects_each_refusal_is_told_once() {
    let (store, fence) = (InMemory::new(), ObjectFence::new(&Path::from("a")).unwrap());
    let (heard, _listening) = listen(|| ());
    fence.write_once(&store, NEW, "1").await.unwrap();
    let refusals = [
        fence.register(&store, OLD).await.map(drop),
        fence.write(&store, OLD, "2").await,
        fence.write_once(&store, NEW, "2").await,
    ];
    assert_eq!(kinds(refusals), ["stale", "stale", "repeated"]);
    assert_eq!(said(&heard), [STALE, STALE, REPEATED]);
}

#[tokio::test]
async fn a_store_on_postgres_that_gives_no_answer_is_told_once_with_its_reason() {
    let server = PostgresServer::start_empty().await;
    let (mut client, fence) = (server.raw().await, PostgresFence::new("a").unwrap());
    let (heard, _listening) = listen(|| ());
    assert_eq!(kinds([fence.register(&client, NEW).await]), ["unavailable"]);
    let [told] = &said(&heard)[..] else { panic!("not told once") };
    assert!(told.starts_with(UNANSWERED) && told.contains("a table of the statement is missing"), "{told}");
    let transaction = client.transaction().await.unwrap();
    assert_eq!(kinds([fence.guard(&transaction, NEW).await]), ["unavailable"]);
    assert_eq!(said(&heard).len(), 1);
    server.terminate_sessions().await;
    assert_eq!(kinds([fence.guard_once(&transaction, NEW).await]), ["unavailable"]);
    assert_eq!(said(&heard).len(), 1);
}

#[tokio::test]
async fn a_store_on_redis_that_gives_no_answer_is_told_once_with_its_reason() {
    let server = RedisServer::start();
    let (mut raw, fence) = (server.raw().await, RedisFence::beside("a").unwrap());
    let (heard, _listening) = listen(|| ());
    drop(server);
    assert_eq!(kinds([fence.write(&mut raw, NEW, Write::set(1)).await.map(drop)]), ["unavailable"]);
    let [told] = &said(&heard)[..] else { panic!("not told once") };
    assert!(told.starts_with(UNANSWERED) && told.contains("the connection to Redis broke"), "{told}");
}

/// A store that cannot be reached.
#[derive(Debug)]
struct Away;

#[async_trait]
impl GetsAndPuts for Away {
    async fn get(&self, _: &Path, _: GetOptions) -> Result<GetResult> {
        Err(Error::Generic { store: "away", source: "no route".into() })
    }

    async fn put(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        unreachable!()
    }
}

#[tokio::test]
async fn a_store_of_objects_that_gives_no_answer_is_told_once_with_its_reason() {
    let (store, fence) = (Narrow(Away), ObjectFence::new(&Path::from("a")).unwrap());
    let (heard, _listening) = listen(|| ());
    for refusal in [fence.register(&store, NEW).await.map(drop), fence.write(&store, NEW, "1").await] {
        assert_eq!(kinds([refusal]), ["unavailable"]);
    }
    let told = said(&heard);
    let no_object = |told: &String| told.starts_with(UNANSWERED) && told.contains("did not give the object");
    assert!(told.len() == 2 && told.iter().all(no_object), "{told:?}");
}

#[test]
fn who_listens_may_use_the_same_fence_and_panic() {
    let fence = Arc::new(Fence::new());
    let used = Arc::clone(&fence);
    let (heard, _listening) = listen(move || {
        used.write("a", NEW, || ()).unwrap();
        std::panic::resume_unwind(Box::new("a subscriber that is wrong"));
    });
    fence.register("a", NEW).unwrap();
    assert_eq!(kinds([fence.write("a", OLD, || ())]), ["stale"]);
    assert_eq!(said(&heard), [STALE]);
}
