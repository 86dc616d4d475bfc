//! A counter in an object that two processes share: [`Object`].

use std::sync::atomic::{AtomicBool, Ordering};

use lockrt::Lease;
use lockrt::fence::object_store::ObjectFence;
use lockrt_tests::{ContentTags, Narrow, SharedFolder};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};

use crate::way::Way;
use crate::writer::{NotRaised, stand_still};

/// Whether the next put of this process is that of its write.
static WRITES: AtomicBool = AtomicBool::new(false);

pub(crate) struct Object {
    way: Way,
    store: Narrow<ContentTags<LocalFileSystem>>,
    fence: ObjectFence,
    location: Path,
}

impl Object {
    pub(crate) fn open(way: Way, folder: &str, id: &str) -> Self {
        let store = SharedFolder::objects(folder.as_ref()).before_put(|| {
            if WRITES.load(Ordering::Relaxed) {
                stand_still();
            }
        });
        let store = store.store();
        let location = Path::from(format!("counter-{id}"));
        Self { way, store, fence: ObjectFence::new(&location).unwrap(), location }
    }

    pub(crate) async fn read(&self) -> u64 {
        let data = if self.way == Way::ObjectNaive {
            match self.store.get(&self.location).await {
                Ok(found) => Some(found.bytes().await.unwrap()),
                Err(Error::NotFound { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        } else {
            self.fence.read(&self.store).await.unwrap()
        };
        data.map_or(0, |data| std::str::from_utf8(&data).unwrap().parse().unwrap())
    }

    pub(crate) async fn raise(&self, lease: &Lease) -> Result<(), NotRaised> {
        if let Way::ObjectFence | Way::ObjectMidWrite = self.way {
            self.fence.register(&self.store, lease).await?;
        }
        let n = (self.read().await + 1).to_string();
        if self.way != Way::ObjectMidWrite {
            stand_still();
        }
        WRITES.store(true, Ordering::Relaxed);
        let written = match self.way {
            Way::ObjectNaive => {
                self.store.put(&self.location, n.into()).await.unwrap();
                Ok(())
            }
            Way::ObjectOnce => self.fence.write_once(&self.store, lease, n).await,
            _ => self.fence.write(&self.store, lease, n).await,
        };
        WRITES.store(false, Ordering::Relaxed);
        Ok(written?)
    }
}
