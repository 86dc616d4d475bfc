//! The fence of an object: who passes, who is refused, and that nothing is written then.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use lockrt::fence::object_store::{HEAD_BYTES, ObjectFence};
use lockrt::fence::{FenceError, Mistake};
use lockrt::{FencingToken, Outcome};
use lockrt_tests::{ContentTags, GetsAndPuts, Narrow, SharedFolder};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetResult, ObjectStore, ObjectStoreExt as _, PutOptions, PutPayload, PutResult, Result,
};

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

fn fence() -> ObjectFence {
    ObjectFence::new(&Path::from("stock/7")).unwrap()
}

async fn text(store: &dyn ObjectStore) -> String {
    let data = fence().read(store).await.unwrap();
    data.map_or_else(|| String::from("nothing"), |data| String::from_utf8(data.to_vec()).unwrap())
}

fn stale<T: fmt::Debug>(refusal: std::result::Result<T, FenceError>) -> (u64, u64) {
    match refusal {
        Err(FenceError::Stale { offered, stored, .. }) => (offered.get(), stored.get()),
        other => panic!("{other:?}"),
    }
}

/// A store with counted tags, and one with tags of the content.
fn stores(folder: &SharedFolder) -> [Box<dyn ObjectStore>; 2] {
    let like_s3 = ContentTags::new(InMemory::new(), &folder.path().join("alone")).store();
    [Box::new(InMemory::new()), Box::new(like_s3)]
}

#[tokio::test]
async fn the_newest_holder_passes_and_older_ones_are_refused() {
    let folder = SharedFolder::create();
    for store in stores(&folder) {
        let (store, fence) = (&*store, fence());
        assert_eq!(fence.register(store, token(4)).await.unwrap(), None);
        fence.write(store, token(5), "a").await.unwrap();
        fence.write(store, token(5), "b").await.unwrap();
        assert_eq!(stale(fence.write(store, token(4), "no").await), (4, 5));
        assert_eq!(fence.register(store, token(7)).await.unwrap().as_deref(), Some(&b"b"[..]));
        assert_eq!(fence.register(store, token(7)).await.unwrap().as_deref(), Some(&b"b"[..]));
        assert_eq!(stale(fence.register(store, token(6)).await), (6, 7));
        assert_eq!(stale(fence.write(store, token(5), "no").await), (5, 7));
        assert_eq!(stale(fence.write_once(store, token(6), "no").await), (6, 7));
        assert_eq!(text(store).await, "b", "a refused holder has written");
        fence.write(store, token(7), "c").await.unwrap();
        // Another object has tokens of its own.
        let other = ObjectFence::new(&Path::from("stock/8")).unwrap();
        other.write(store, token(1), "d").await.unwrap();
        assert_eq!(text(store).await, "c");
    }
}

#[tokio::test]
async fn once_per_grant_is_once_also_after_a_registration_and_a_plain_write() {
    let store = InMemory::new();
    fence().register(&store, token(5)).await.unwrap();
    fence().write_once(&store, token(5), "a").await.unwrap();
    let again = fence().write_once(&store, token(5), "no").await.unwrap_err();
    assert_eq!((again.kind(), again.offered(), again.stored()), ("repeated", Some(token(5)), Some(token(5))));
    fence().write(&store, token(6), "b").await.unwrap();
    assert!(fence().write_once(&store, token(6), "no").await.unwrap_err().is_repeated());
    assert_eq!(text(&store).await, "b");
    fence().write_once(&store, token(7), "c").await.unwrap();
    assert_eq!(text(&store).await, "c");
}

#[tokio::test]
async fn tokens_of_64_bits_and_data_of_any_kind_are_kept() {
    let store = InMemory::new();
    fence().write(&store, token(u64::MAX), Vec::new()).await.unwrap();
    assert_eq!(text(&store).await, "", "written, and empty");
    assert_eq!(stale(fence().write(&store, token(u64::MAX - 1), "no").await), (u64::MAX - 1, u64::MAX));
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    fence().write(&store, token(u64::MAX), large.clone()).await.unwrap();
    let read = fence().register(&store, token(u64::MAX)).await.unwrap();
    assert_eq!(read.as_deref(), Some(&large[..]));
    let stored = store.head(&Path::from("stock/7")).await.unwrap().size;
    assert_eq!(stored, (large.len() + HEAD_BYTES) as u64);
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let store = InMemory::new();
    let empty = ObjectFence::new(&Path::from("")).unwrap_err();
    assert!(matches!(empty, FenceError::Invalid(Mistake::EmptyResource)), "{empty}");
    let long = ObjectFence::new(&Path::from("x".repeat(1_025))).unwrap_err();
    assert!(matches!(long, FenceError::Invalid(Mistake::LongResource { bytes: 1_025 })), "{long}");
    for refused in [
        fence().write(&store, token(0), "no").await.unwrap_err(),
        fence().write_once(&store, token(0), "no").await.unwrap_err(),
        fence().register(&store, token(0)).await.unwrap_err(),
    ] {
        assert!(matches!(refused, FenceError::Invalid(Mistake::TokenZero)), "{refused}");
    }
    assert!(matches!(fence().write(&store, None, "no").await, Err(FenceError::NoToken { .. })));
    assert!(matches!(fence().register(&store, None).await, Err(FenceError::NoToken { .. })));
    assert!(store.head(&Path::from("stock/7")).await.is_err(), "something was sent");
}

#[tokio::test]
async fn names_with_quotes_and_of_1_kb_are_names() {
    let store = InMemory::new();
    for name in ["it's \"here\"; --", "ключ/%2F..", &"x".repeat(1_024)] {
        let fence = ObjectFence::new(&Path::from(name)).unwrap();
        fence.write(&store, token(5), "a").await.unwrap();
        let refusal = fence.write(&store, token(4), "no").await.unwrap_err();
        assert!(refusal.is_stale() && !refusal.to_string().contains(name), "{refusal}");
    }
}

#[tokio::test]
async fn an_object_without_a_fence_is_left_as_it_is() {
    let store = InMemory::new();
    for data in ["", "short", &"long".repeat(100)] {
        store.put(&Path::from("stock/7"), data.to_owned().into()).await.unwrap();
        for refused in [
            fence().register(&store, token(5)).await.map(drop),
            fence().read(&store).await.map(drop),
            fence().write(&store, token(5), "no").await,
        ] {
            assert!(matches!(refused, Err(FenceError::Unusable { .. })), "{data:?}: {refused:?}");
        }
        let stored = store.get(&Path::from("stock/7")).await.unwrap().bytes().await.unwrap();
        assert_eq!(stored, data.as_bytes());
    }
}

#[tokio::test]
async fn a_folder_of_files_is_refused_since_it_has_no_conditional_puts() {
    let folder = SharedFolder::create();
    let store = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    fence().register(&store, token(4)).await.unwrap();
    let refused = fence().write(&store, token(5), "no").await.unwrap_err();
    assert!(matches!(refused, FenceError::Unusable { .. }), "{refused}");
    assert!(refused.to_string().contains("no conditional puts"), "{refused}");
    assert_eq!(text(&store).await, "nothing");
}

/// A store that has nothing, and says so in these words.
#[derive(Debug)]
struct Missing(&'static str);

#[async_trait]
impl GetsAndPuts for Missing {
    async fn get(&self, location: &Path, _: GetOptions) -> Result<GetResult> {
        let source =
            format!("404 Not Found: <Error><Code>{}</Code><Key>stock/7</Key></Error>", self.0).into();
        Err(Error::NotFound { path: location.to_string(), source })
    }

    async fn put(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        unreachable!()
    }
}

#[tokio::test]
async fn a_missing_bucket_is_not_taken_for_an_object_that_was_never_written() {
    assert_eq!(fence().read(&Narrow(Missing("NoSuchKey"))).await.unwrap(), None);
    assert_eq!(fence().read(&Narrow(Missing("BlobNotFound"))).await.unwrap(), None);
    for code in ["NoSuchBucket", "ContainerNotFound"] {
        let error = fence().read(&Narrow(Missing(code))).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), ("unavailable", Outcome::NotApplied), "{error}");
        assert!(
            error.to_string().contains("no such bucket") && !error.to_string().contains("stock"),
            "{error}"
        );
    }
}

/// What happens to the put of this number, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// The store fails without having put.
    Failed,
    /// It puts, and its answer is lost.
    Unanswered,
    /// It puts, its answer is lost, and the client repeats the put by itself, which is then refused.
    Repeated,
    /// As before, and before it looks again a newer holder has registered.
    Registered,
    /// As before, and has written.
    Overwritten,
    /// Each put finds another object than the look.
    Chased,
    /// Each but the last one, which is put, and refused when its client repeats it.
    CaughtAtLast,
}

/// A store whose `at`th put meets with a mishap.
#[derive(Debug)]
struct Mishaps {
    inner: InMemory,
    mishap: Mishap,
    at: u32,
    puts: AtomicU32,
    looks: Mutex<u32>,
}

impl Mishaps {
    fn new(mishap: Mishap, at: u32) -> Narrow<Self> {
        Narrow(Self { inner: InMemory::new(), mishap, at, puts: AtomicU32::new(0), looks: Mutex::new(0) })
    }
}

fn lost() -> Error {
    Error::Generic { store: "mishaps", source: "stock/7 did not answer".into() }
}

#[async_trait]
impl GetsAndPuts for Mishaps {
    async fn put(&self, location: &Path, data: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = self.puts.fetch_add(1, Ordering::Relaxed);
        if matches!(self.mishap, Mishap::Chased | Mishap::CaughtAtLast) && put >= self.at {
            if self.mishap == Mishap::CaughtAtLast && put == self.at + 15 {
                self.inner.put_opts(location, data, options).await?;
            }
            return Err(Error::Precondition { path: location.to_string(), source: "changed".into() });
        }
        if put != self.at {
            return self.inner.put_opts(location, data, options).await;
        }
        if self.mishap == Mishap::Failed {
            return Err(lost());
        }
        self.inner.put_opts(location, data.clone(), options.clone()).await?;
        match self.mishap {
            Mishap::Unanswered => return Err(lost()),
            Mishap::Registered => drop(fence().register(&self.inner, token(9)).await.unwrap()),
            Mishap::Overwritten => fence().write(&self.inner, token(9), "newer").await.unwrap(),
            _ => {}
        }
        self.inner.put_opts(location, data, options).await
    }

    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        *self.looks.lock().unwrap() += 1;
        self.inner.get_opts(location, options).await
    }
}

/// What becomes of a write whose put meets with `mishap`, after a registration, and what is there then.
async fn written(mishap: Mishap) -> (std::result::Result<(), FenceError>, String) {
    let store = Mishaps::new(mishap, 1);
    fence().register(&store, token(5)).await.unwrap();
    let outcome = fence().write_once(&store, token(5), "a").await;
    (outcome, text(&store.0.inner).await)
}

#[tokio::test]
async fn a_store_that_fails_in_the_middle_leaves_the_outcome_open_and_names_no_path() {
    for (mishap, found) in [(Mishap::Failed, "nothing"), (Mishap::Unanswered, "a")] {
        let (outcome, stored) = written(mishap).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.outcome(), stored.as_str()), (Outcome::Unknown, found), "{mishap:?}: {error}");
        assert!(!error.to_string().contains("stock"), "{error}");
    }
}

#[tokio::test]
async fn a_retry_after_a_lost_answer_is_told_that_the_first_one_went_through() {
    let store = Mishaps::new(Mishap::Unanswered, 1);
    fence().register(&store, token(5)).await.unwrap();
    fence().write_once(&store, token(5), "a").await.unwrap_err();
    assert!(fence().write_once(&store, token(5), "a").await.unwrap_err().is_repeated());
}

#[tokio::test]
async fn a_put_that_its_client_has_repeated_is_known_by_its_name() {
    for mishap in [Mishap::Repeated, Mishap::Registered] {
        let (outcome, stored) = written(mishap).await;
        outcome.unwrap_or_else(|error| panic!("{mishap:?}: {error}"));
        assert_eq!(stored, "a");
    }
}

#[tokio::test]
async fn a_put_over_which_a_newer_holder_has_written_may_have_been_done() {
    let (outcome, stored) = written(Mishap::Overwritten).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.outcome(), stored.as_str()), (Outcome::Unknown, "newer"), "{error}");
    assert!(error.to_string().contains("fencing token 5 was refused, and 9 has been here"), "{error}");
}

#[tokio::test]
async fn a_registration_whose_answer_is_lost_can_be_repeated() {
    for mishap in [Mishap::Failed, Mishap::Unanswered] {
        let store = Mishaps::new(mishap, 0);
        let error = fence().register(&store, token(5)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        assert_eq!(fence().register(&store, token(5)).await.unwrap(), None);
    }
    let store = Mishaps::new(Mishap::Repeated, 0);
    assert_eq!(fence().register(&store, token(5)).await.unwrap(), None);
}

#[tokio::test]
async fn a_call_gives_up_after_a_bounded_number_of_tries() {
    let store = Mishaps::new(Mishap::Chased, 1);
    fence().register(&store, token(5)).await.unwrap();
    *store.0.looks.lock().unwrap() = 0;
    let error = fence().write(&store, token(5), "no").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), ("unavailable", Outcome::Unknown), "{error}");
    assert_eq!(*store.0.looks.lock().unwrap(), 16);
}

#[tokio::test]
async fn a_call_that_gives_up_does_not_say_that_nothing_was_written() {
    let (outcome, stored) = written(Mishap::CaughtAtLast).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.outcome(), stored.as_str()), (Outcome::Unknown, "a"), "{error}");
}
