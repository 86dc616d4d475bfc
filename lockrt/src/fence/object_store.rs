//! Fenced writes for objects in S3, GCS, Azure, and whatever else `object_store` can write on a condition.
//!
//! The locks may be anywhere. The store is a client of the crate `object_store`, which the caller makes.
//!
//! ```
//! use lockrt::fence::object_store::ObjectFence;
//! use lockrt::{LockError, distributed_lock};
//! use object_store::{ObjectStore, path::Path};
//!
//! #[distributed_lock(key = "ledger:{tenant}", ttl_ms = 30_000, lease = lease, fencing = required)]
//! async fn append(
//!     tenant: &str,
//!     store: &dyn ObjectStore,
//!     line: &str,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let fence = ObjectFence::new(&Path::from(format!("ledgers/{tenant}")))?;
//!     let read = fence.register(store, lease).await?; // registers, and reads
//!     let mut ledger = read.map_or_else(Vec::new, |data| data.to_vec());
//!     ledger.extend_from_slice(line.as_bytes()); // long work
//!     fence.write(store, lease, ledger).await?;
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! # let _locks = lockrt::testing::memory();
//! let store = object_store::memory::InMemory::new();
//! append("acme", &store, "10\n").await?;
//! append("acme", &store, "20\n").await?;
//! let ledger = ObjectFence::new(&Path::from("ledgers/acme"))?.read(&store).await?;
//! assert_eq!(ledger.as_deref(), Some(&b"10\n20\n"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where the token is kept
//!
//! In the object's own first [`HEAD_BYTES`], as a line of text before the data. So every reader goes through
//! [`read`](ObjectFence::read), or skips that many bytes.
//!
//! Metadata would not do. What a store compares in a conditional put is the `ETag`, and that of S3 is made from the
//! bytes alone: a registration that changed only metadata would leave it as it was, and the put of the holder that
//! it was to refuse would pass. A second object beside the data would not do either, since no store changes two
//! objects in one step.
//!
//! # What it costs
//!
//! A registration reads the whole object and writes it again; a write reads the head and writes the object. So
//! keep fenced objects small. For large data write each version under a new name, without a fence, and fence the
//! small object that says which name counts. The same helps readers that cannot skip a head.
//!
//! # Which stores
//!
//! Those with conditional puts: Amazon S3 and what speaks like it and honours `If-Match`, GCS, Azure, and
//! `InMemory`. `LocalFileSystem` and plain HTTP servers have none, and are refused as
//! [`FenceError::Unusable`], at the second put at the latest: the first one of `LocalFileSystem` makes the object. A store that
//! takes `If-Match` and does not honour it is not found out. A bucket that is replicated both ways is two stores.
//!
//! # For how long a call waits
//!
//! As long as the store's client does, which repeats what fails, and what is not answered within 30 s, for up to 180 s.
//! A body whose lease is lost is dropped, and the call with it, unless it says `on_lost = report`; a put that was on its
//! way may be carried out, and is refused if somebody has registered since. Have the client give up earlier than your
//! leases end, where it is built:
//!
//! ```text
//! AmazonS3Builder::from_env()
//!     .with_retry(RetryConfig { retry_timeout: Duration::from_secs(5), ..RetryConfig::default() })
//!     .with_client_options(ClientOptions::new().with_timeout(Duration::from_secs(3)))
//! ```
//!
//! # How long it is kept
//!
//! As long as the object. Whoever deletes it, or puts another one over it without the fence, lets a stale write
//! land; so may a rule of the bucket that lets objects expire.

mod failure;
mod head;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion,
};

use self::head::{Head, WriteId};
use crate::error::BackendError;
use crate::fence::error::FenceError;
use crate::fence::marks::{Idiom, usable};
use crate::fence::resource::Resource;
use crate::token::FencingToken;

pub use self::head::HEAD_BYTES;

/// How often the object may have changed between look and put before a call gives up. Each time somebody else
/// got through, and under a lock few try.
const TRIES: u32 = 16;

/// A fence around one object.
///
/// Making one sends nothing. Every call takes a store of the caller's and a `&Lease`, or for callees a
/// [`FencingToken`] or `lease.fencing()`.
///
/// A client repeats by itself what fails or is not answered, for up to 180 s unless its builder is told otherwise, and a
/// call waits for it. That is longer than most leases: see [the module](self#for-how-long-a-call-waits).
///
/// # Errors
///
/// All calls give [`FenceError::Stale`] if a later holder is known, [`FenceError::NoToken`] or
/// [`FenceError::Invalid`] before anything is sent, [`FenceError::Unusable`] where the object has no fence or the
/// store no conditional puts, and [`FenceError::Unavailable`] if the store refuses or does not answer.
///
/// # Cancellation
///
/// A call that is dropped may be carried out all the same.
#[derive(Clone, Debug)]
pub struct ObjectFence {
    resource: Resource,
    location: Path,
}

/// The object as it is, or that there is none.
struct Found {
    head: Head,
    data: Bytes,
    mode: PutMode,
}

impl ObjectFence {
    /// The fence of the object at `location`, which one lock key always locks.
    ///
    /// # Errors
    ///
    /// [`FenceError::Invalid`] for an empty path, or one over 1,024 bytes.
    pub fn new(location: &Path) -> Result<Self, FenceError> {
        Ok(Self { resource: Resource::new(location.as_ref())?, location: location.clone() })
    }

    /// Announces the holder and reads the data: whoever has an older token is refused from now on, though nothing
    /// is written yet. None: nothing was written so far.
    ///
    /// It makes the object if there is none.
    ///
    /// # Errors
    ///
    /// See [the type](Self#errors). After [`FenceError::Unavailable`] the holder may be registered or not.
    ///
    /// # Cancellation
    ///
    /// The holder is registered or not; repeating it is harmless.
    pub async fn register(
        &self,
        store: &dyn ObjectStore,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<Option<Bytes>, FenceError> {
        let token = usable(&self.resource, token)?;
        for _ in 0..TRIES {
            let Found { mut head, data, mode } = self.look(store, true).await?;
            if head.marks.seen() != Some(token) {
                self.pass(&mut head, token, Idiom::Register)?;
                if !self.put(store, head, &data.clone().into(), mode).await? {
                    continue;
                }
            }
            return Ok(head.has_data.then_some(data));
        }
        Err(self.always_changed())
    }

    /// The data, for whoever needs no lock to read them; none if nothing was written so far.
    ///
    /// # Errors
    ///
    /// [`FenceError::Unusable`] and [`FenceError::Unavailable`], as for [the type](Self#errors).
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    pub async fn read(&self, store: &dyn ObjectStore) -> Result<Option<Bytes>, FenceError> {
        let found = self.look(store, true).await?;
        Ok(found.head.has_data.then_some(found.data))
    }

    /// Writes `data` in place of what is there, unless a later holder is known, and refuses older ones from then
    /// on; one holder may write more than once.
    ///
    /// # Errors
    ///
    /// See [the type](Self#errors).
    ///
    /// # Cancellation
    ///
    /// See [the type](Self#cancellation).
    pub async fn write(
        &self,
        store: &dyn ObjectStore,
        token: impl Into<Option<FencingToken>>,
        data: impl Into<PutPayload>,
    ) -> Result<(), FenceError> {
        self.replace(store, usable(&self.resource, token)?, Idiom::Write, data.into()).await
    }

    /// Writes `data` unless a later holder is known or this one has written: once per grant, so that a retry
    /// cannot do it twice.
    ///
    /// # Errors
    ///
    /// See [the type](Self#errors), and [`FenceError::Repeated`] if this grant has written before.
    ///
    /// # Cancellation
    ///
    /// See [the type](Self#cancellation).
    pub async fn write_once(
        &self,
        store: &dyn ObjectStore,
        token: impl Into<Option<FencingToken>>,
        data: impl Into<PutPayload>,
    ) -> Result<(), FenceError> {
        self.replace(store, usable(&self.resource, token)?, Idiom::Once, data.into()).await
    }

    async fn replace(
        &self,
        store: &dyn ObjectStore,
        token: FencingToken,
        idiom: Idiom,
        data: PutPayload,
    ) -> Result<(), FenceError> {
        let id = WriteId::draw().map_err(|error| {
            self.unavailable(BackendError::not_applied(format!("the system gives no random bits: {error}")))
        })?;
        // The write on which a put was built that the store has refused since.
        let mut refused_on = None;
        for _ in 0..TRIES {
            let Found { mut head, mode, .. } = self.look(store, false).await?;
            // Clients repeat a put that is not answered, and are then refused by what they themselves have put.
            if head.last_write == Some(id) {
                return Ok(());
            }
            let on = head.last_write;
            if let Err(refusal) = self.pass(&mut head, token, idiom) {
                let overwritten = refused_on.is_some_and(|before| before != on);
                return Err(if overwritten { self.overwritten(&refusal) } else { refusal });
            }
            (head.last_write, head.has_data) = (Some(id), true);
            if self.put(store, head, &data, mode).await? {
                return Ok(());
            }
            refused_on = Some(on);
        }
        Err(self.always_changed())
    }

    fn pass(&self, head: &mut Head, token: FencingToken, idiom: Idiom) -> Result<(), FenceError> {
        head.marks.pass(&self.resource, token, idiom).inspect_err(FenceError::tell)
    }

    /// What is there now; of the data only what a range of the head holds, unless they are asked for.
    async fn look(&self, store: &dyn ObjectStore, with_data: bool) -> Result<Found, FenceError> {
        let range = (!with_data).then_some(GetRange::Bounded(0..HEAD_BYTES as u64));
        let answer = match store.get_opts(&self.location, GetOptions { range, ..GetOptions::default() }).await
        {
            // Of an empty object no range can be had.
            Err(Error::Generic { .. }) if !with_data => store.get(&self.location).await,
            answer => answer,
        };
        let found = match answer {
            Ok(found) => found,
            Err(error) if failure::is_missing(&error) => {
                return Ok(Found { head: Head::default(), data: Bytes::new(), mode: PutMode::Create });
            }
            Err(error) => return Err(self.unavailable(failure::of_get(&error))),
        };
        let version = UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        if version.e_tag.is_none() && version.version.is_none() {
            return Err(
                self.unusable("its store gives objects no version, so none can be compared at a write")
            );
        }
        let mut bytes = found.bytes().await.map_err(|error| self.unavailable(failure::of_get(&error)))?;
        let Some(head) = bytes.get(..HEAD_BYTES).and_then(Head::read) else {
            return Err(self.unusable(
                "it has no fence in its first bytes, so it was written without one; write its data under a new name",
            ));
        };
        Ok(Found { head, data: bytes.split_off(HEAD_BYTES), mode: PutMode::Update(version) })
    }

    /// Puts head and data if the object is still what `mode` says; whether it was.
    async fn put(
        &self,
        store: &dyn ObjectStore,
        head: Head,
        data: &PutPayload,
        mode: PutMode,
    ) -> Result<bool, FenceError> {
        let head = [Bytes::from(head.to_string())];
        let payload: PutPayload = head.into_iter().chain(data.iter().cloned()).collect();
        match store.put_opts(&self.location, payload, mode.into()).await {
            Ok(_) => Ok(true),
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(false),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => Err(self.unusable(
                "its store has no conditional puts, or they are switched off; nothing was written",
            )),
            Err(error) => Err(self.unavailable(failure::of_put(&error))),
        }
    }

    /// The holder is refused, and what was put after its refused try may have been put over its write.
    fn overwritten(&self, refusal: &FenceError) -> FenceError {
        let number = |token: Option<FencingToken>| token.map_or(0, FencingToken::get);
        let source = BackendError::unknown(format!(
            "the put of fencing token {} was refused, and {} has been here since",
            number(refusal.offered()),
            number(refusal.stored()),
        ));
        // Told as the refusal that it is.
        FenceError::Unavailable { resource: self.resource.clone(), source }
    }

    /// A put that its client repeated may be among those that were refused.
    fn always_changed(&self) -> FenceError {
        self.unavailable(BackendError::unknown(format!(
            "somebody else was faster {TRIES} times in a row; is everybody under the lock?"
        )))
    }

    fn unusable(&self, reason: &'static str) -> FenceError {
        FenceError::Unusable { resource: self.resource.clone(), reason }
    }

    /// It is told here, since each call that gives one ends with it.
    fn unavailable(&self, source: BackendError) -> FenceError {
        let error = FenceError::Unavailable { resource: self.resource.clone(), source };
        error.tell();
        error
    }
}
