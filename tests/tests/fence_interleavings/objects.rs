//! Counters in objects. A call of their fence is more than one of the store, and holders may be paused between
//! those, too.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use lockrt::fence::object_store::ObjectFence;
use lockrt::fence::{Fence, FenceError};
use lockrt::{FencingToken, Outcome};
use lockrt_tests::{ContentTags, GetsAndPuts, Narrow, SharedFolder};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetResult, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload, PutResult, Result, UpdateVersion,
};

use crate::play::{Counter, HOLDERS, Idiom, searched, token_of};

/// As many calls of the store as all holders make, and some.
const STEPS: usize = 36;

/// A store each of whose calls is a step: it waits to be polled once more before it is made.
#[derive(Debug)]
pub(crate) struct Stepped<S>(S);

pub(crate) fn stepped<S: ObjectStore>(store: S) -> Narrow<Stepped<S>> {
    Narrow(Stepped(store))
}

#[async_trait]
impl<S: ObjectStore> GetsAndPuts for Stepped<S> {
    async fn put(&self, location: &Path, data: PutPayload, options: PutOptions) -> Result<PutResult> {
        step().await;
        self.0.put_opts(location, data, options).await
    }

    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        step().await;
        self.0.get_opts(location, options).await
    }
}

async fn step() {
    tokio::task::yield_now().await;
}

pub(crate) struct OnObject<S> {
    store: Narrow<Stepped<S>>,
    fence: ObjectFence,
}

fn on_object<S: ObjectStore>(store: S) -> OnObject<S> {
    OnObject { store: stepped(store), fence: ObjectFence::new(&place()).unwrap() }
}

fn place() -> Path {
    Path::from("n")
}

/// On a store that counts its versions.
pub(crate) fn counted(_: &SharedFolder) -> OnObject<InMemory> {
    on_object(InMemory::new())
}

/// On a store whose tags are made from the content.
pub(crate) fn like_s3(folder: &SharedFolder) -> OnObject<Narrow<ContentTags<InMemory>>> {
    on_object(tagged(folder))
}

pub(crate) fn tagged(folder: &SharedFolder) -> Narrow<ContentTags<InMemory>> {
    ContentTags::new(InMemory::new(), &folder.path().join("alone")).store()
}

fn number(data: &[u8]) -> u64 {
    std::str::from_utf8(data).unwrap().parse().unwrap()
}

impl<S: ObjectStore> Counter for OnObject<S> {
    async fn register(&self, token: FencingToken) -> std::result::Result<(), FenceError> {
        self.fence.register(&self.store, token).await.map(drop)
    }

    async fn read(&self) -> u64 {
        self.fence.read(&self.store).await.unwrap().map_or(0, |data| number(&data))
    }

    async fn write(
        &self,
        token: FencingToken,
        idiom: Idiom,
        value: u64,
    ) -> std::result::Result<(), FenceError> {
        match idiom {
            Idiom::Write => self.fence.write(&self.store, token, value.to_string()).await,
            Idiom::Once => self.fence.write_once(&self.store, token, value.to_string()).await,
        }
    }
}

/// The other design: the token in the object's metadata. Right where each put gives the object a new tag.
pub(crate) struct InAttributes<S> {
    pub(crate) store: Narrow<Stepped<S>>,
}

impl<S: ObjectStore> InAttributes<S> {
    /// Raises the token, and replaces the data if there are new ones.
    async fn put(&self, offered: FencingToken, data: Option<String>) -> std::result::Result<(), FenceError> {
        let mark = || Attribute::Metadata("token".into());
        loop {
            let (seen, mode, old) = match self.store.get(&place()).await {
                Ok(found) => {
                    let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
                    let seen = found.attributes.get(&mark()).map_or(0, |token| number(token.as_bytes()));
                    let old = found.bytes().await.unwrap();
                    (seen, PutMode::Update(UpdateVersion { e_tag, version }), old)
                }
                Err(_) => (0, PutMode::Create, "0".into()),
            };
            let in_memory = Fence::new();
            in_memory.register("n", FencingToken::new(seen.max(1)))?;
            in_memory.register("n", offered)?;
            let attributes = Attributes::from_iter([(mark(), offered.get().to_string())]);
            let options = PutOptions { mode, attributes, ..PutOptions::default() };
            let data = data.clone().map_or(PutPayload::from(old), PutPayload::from);
            match self.store.put_opts(&place(), data, options).await {
                Ok(_) => return Ok(()),
                Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl<S: ObjectStore> Counter for InAttributes<S> {
    async fn register(&self, token: FencingToken) -> std::result::Result<(), FenceError> {
        self.put(token, None).await
    }

    async fn read(&self) -> u64 {
        let Ok(found) = self.store.get(&place()).await else { return 0 };
        number(&found.bytes().await.unwrap())
    }

    async fn write(&self, token: FencingToken, _: Idiom, value: u64) -> std::result::Result<(), FenceError> {
        self.put(token, Some(value.to_string())).await
    }
}

/// A holder's whole life; `passed` counts its writes.
async fn raise(
    counter: &impl Counter,
    token: FencingToken,
    (idiom, registers): (Idiom, bool),
    passed: &Cell<u64>,
) {
    let raised = async {
        if registers {
            counter.register(token).await?;
        }
        for _ in 0..2 {
            let value = counter.read().await + 1;
            counter.write(token, idiom, value).await?;
            passed.set(passed.get() + 1);
        }
        Ok(())
    };
    let Err(refused): std::result::Result<(), FenceError> = raised.await else { return };
    // Of a put that a newer holder has overtaken its writer cannot know that it was not done.
    let in_doubt = refused.kind() == "unavailable" && refused.outcome() == Outcome::Unknown;
    let by_its_own = refused.is_repeated() && idiom == Idiom::Once;
    assert!(refused.is_stale() || in_doubt || by_its_own, "{refused}");
}

/// As `lost_update`, with holders that may be paused before each call of the store.
pub(crate) fn lost_on_objects<C: Counter>(
    cases: u32,
    rules: (Idiom, bool),
    new: impl Fn(&SharedFolder) -> C,
) -> Option<Vec<usize>> {
    let folder = SharedFolder::create();
    searched(cases, STEPS, |schedule| {
        let (counter, passed) = (new(&folder), Cell::new(0));
        let life = |holder| Some(Box::pin(raise(&counter, token_of(holder), rules, &passed)));
        let mut holders: Vec<_> = (0..HOLDERS).map(life).collect();
        for holder in schedule {
            if holders[*holder].as_mut().is_some_and(|life| poll(life.as_mut()).is_ready()) {
                holders[*holder] = None;
            }
        }
        drop(holders);
        let mut read = pin!(counter.read());
        loop {
            if let Poll::Ready(value) = poll(read.as_mut()) {
                return (passed.get(), value);
            }
        }
    })
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
