//! A store of objects whose tags are made from the content, as those of S3 are.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path as Folder, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetResult, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    PutResult, Result,
};
use rustix::fs::{FlockOperation, flock};

use crate::narrow::{GetsAndPuts, Narrow};

/// A store that has no conditional puts, or tags of its own, with both: puts go one at a time, over all
/// processes. The object's attributes are not part of its tag.
///
/// It blocks its thread while another one puts.
#[derive(Debug)]
pub struct ContentTags<S> {
    inner: S,
    /// Locked while an object is compared and put.
    alone: PathBuf,
    before_put: fn(),
}

impl<S: ObjectStore> ContentTags<S> {
    /// Such a store of what `inner` keeps; `alone` is a file that the processes share.
    #[must_use]
    pub fn new(inner: S, alone: &Folder) -> Self {
        Self { inner, alone: alone.to_owned(), before_put: || () }
    }

    /// The store itself.
    #[must_use]
    pub fn store(self) -> Narrow<Self> {
        Narrow(self)
    }

    /// Calls `hook` right before each put.
    #[must_use]
    pub fn before_put(self, hook: fn()) -> Self {
        Self { before_put: hook, ..self }
    }

    async fn tag(&self, location: &Path) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.inner.get(location).await?.bytes().await?);
        Ok(format!("\"{:016x}\"", hasher.finish()))
    }

    async fn compare(&self, location: &Path, expected: Option<String>) -> Result<()> {
        let precondition =
            |source: String| Error::Precondition { path: location.to_string(), source: source.into() };
        match self.tag(location).await {
            Ok(tag) if expected.as_ref() == Some(&tag) => Ok(()),
            Ok(tag) => Err(precondition(format!("{tag} is not {expected:?}"))),
            Err(Error::NotFound { .. }) => Err(precondition(String::from("there is no such object"))),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl<S: ObjectStore> GetsAndPuts for ContentTags<S> {
    async fn put(&self, location: &Path, data: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        (self.before_put)();
        let file = File::create(&self.alone).expect("the folder is writable");
        // Unlocked when it is closed, also by the death of its process.
        flock(&file, FlockOperation::LockExclusive).expect("the file system has locks");
        if let PutMode::Update(version) = &options.mode {
            self.compare(location, version.e_tag.clone()).await?;
            options.mode = PutMode::Overwrite;
        }
        let put = self.inner.put_opts(location, data, options).await?;
        Ok(PutResult { e_tag: Some(self.tag(location).await?), version: None, ..put })
    }

    async fn get(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        // Tag and bytes are of one version if both looks see the same tag.
        loop {
            let before = self.tag(location).await?;
            let mut found = self.inner.get_opts(location, options.clone()).await?;
            if self.tag(location).await? == before {
                (found.meta.e_tag, found.meta.version) = (Some(before), None);
                return Ok(found);
            }
        }
    }
}

/// A folder of this test's own, for a store that several processes use; deleted on drop.
#[derive(Debug)]
pub struct SharedFolder(PathBuf);

impl SharedFolder {
    /// A new one.
    #[must_use]
    pub fn create() -> Self {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lockrt-objects-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the directory for temporary files is writable");
        Self(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Folder {
        &self.0
    }

    /// The store in the folder at `path`, the same for all processes.
    #[must_use]
    pub fn objects(path: &Folder) -> ContentTags<LocalFileSystem> {
        let objects = LocalFileSystem::new_with_prefix(path).expect("the folder exists");
        ContentTags::new(objects, &path.join("alone#"))
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
