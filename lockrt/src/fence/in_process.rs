//! A fence for stores inside of this process: [`Fence`].

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fence::error::{FenceError, Mistake};
use crate::fence::marks::{Idiom, Marks, checked};
use crate::fence::resource::Resource;
use crate::token::FencingToken;

/// A fence for stores inside of this process: the greatest fencing token of each resource.
///
/// Every call takes a `&Lease`, or for callees a [`FencingToken`] or `lease.fencing()`. Calls for
/// one resource go one at a time, calls for different ones do not meet.
///
/// ```
/// use lockrt::FencingToken;
/// use lockrt::fence::Fence;
///
/// let fence = Fence::new();
/// let (paused, next) = (FencingToken::new(33), FencingToken::new(34)); // or `&lease`
/// let mut price = 100;
///
/// fence.register("quote:7", paused)?; // then it reads, works, and is paused
/// fence.register("quote:7", next)?;
/// fence.write("quote:7", next, || price = 120)?;
///
/// let refused = fence.write("quote:7", paused, || price = 110).unwrap_err();
/// assert!(refused.is_stale());
/// assert_eq!((refused.offered(), refused.stored()), (Some(paused), Some(next)));
/// assert_eq!(price, 120);
/// # Ok::<(), lockrt::fence::FenceError>(())
/// ```
///
/// It knows what was written since it was made. For data that outlive the process keep the token
/// with the data, and [`register`](Self::register) it when they are loaded.
///
/// A resource takes some 200 bytes and its name from its first call on, until it is
/// [forgotten](Self::forget).
#[derive(Default)]
pub struct Fence(Mutex<HashMap<Resource, Arc<Mutex<Entry>>>>);

#[derive(Default)]
struct Entry {
    marks: Marks,
    /// It is in the map no more: who waited for it looks again.
    forgotten: bool,
}

impl Fence {
    /// A fence that has seen no token.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Announces the holder: whoever has an older token is refused from now on, before it can write.
    /// Call it before the first read.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a later holder is known; [`FenceError::NoToken`] or
    /// [`FenceError::Invalid`] for what cannot be fenced.
    pub fn register(&self, resource: &str, token: impl Into<Option<FencingToken>>) -> Result<(), FenceError> {
        let (resource, token) = checked(resource, token)?;
        self.pass(&resource, token, Idiom::Register, || ()).inspect_err(FenceError::tell)
    }

    /// Runs `write` unless a later holder is known, and refuses older ones from then on; one holder
    /// may write more than once.
    ///
    /// No other write of this resource begins before `write` has ended, so keep it short. It may not
    /// call a fence. It counts as done even if it gives an error or panics.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a later holder is known; [`FenceError::NoToken`] or
    /// [`FenceError::Invalid`] for what cannot be fenced. `write` has not run then.
    pub fn write<T>(
        &self,
        resource: &str,
        token: impl Into<Option<FencingToken>>,
        write: impl FnOnce() -> T,
    ) -> Result<T, FenceError> {
        let (resource, token) = checked(resource, token)?;
        self.pass(&resource, token, Idiom::Write, write).inspect_err(FenceError::tell)
    }

    /// Runs `write` unless a later holder is known or this one has written: once per grant, so that
    /// a retry cannot do it twice.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`FenceError::Repeated`] if this grant has written before.
    pub fn write_once<T>(
        &self,
        resource: &str,
        token: impl Into<Option<FencingToken>>,
        write: impl FnOnce() -> T,
    ) -> Result<T, FenceError> {
        let (resource, token) = checked(resource, token)?;
        self.pass(&resource, token, Idiom::Once, write).inspect_err(FenceError::tell)
    }

    /// Forgets a resource, and gives the greatest token it had seen; none if it had seen none.
    ///
    /// From then on every token passes again, as on a resource that was never written. So forget
    /// what is gone for good, once no holder can be left that would write it: a holder paused for
    /// longer than you waited would bring the resource back.
    ///
    /// # Errors
    ///
    /// [`FenceError::Invalid`] from within a write.
    pub fn forget(&self, resource: &str) -> Result<Option<FencingToken>, FenceError> {
        let _alone = Alone::on_this_thread()?;
        let Some(entry) = self.entries().get(resource).map(Arc::clone) else {
            return Ok(None);
        };
        // A write that is under way ends first.
        let mut entry = locked(&entry);
        if entry.forgotten {
            return Ok(None);
        }
        entry.forgotten = true;
        self.entries().remove(resource);
        Ok(entry.marks.seen())
    }

    /// How many resources it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Who tells of a refusal does so after this, when all is unlocked again.
    fn pass<T>(
        &self,
        resource: &Resource,
        token: FencingToken,
        idiom: Idiom,
        write: impl FnOnce() -> T,
    ) -> Result<T, FenceError> {
        let _alone = Alone::on_this_thread()?;
        loop {
            let entry = Arc::clone(self.entries().entry(resource.clone()).or_default());
            let mut entry = locked(&entry);
            if entry.forgotten {
                continue;
            }
            entry.marks.pass(resource, token, idiom)?;
            return Ok(write());
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Resource, Arc<Mutex<Entry>>>> {
        locked(&self.0)
    }
}

/// The lock of what a panicking write cannot have left half done: marks are set before it runs.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("resources", &self.len()).finish()
    }
}

/// The one call of a fence on its thread. A write that called a fence could wait for itself, or for
/// another thread's write that waits for it.
struct Alone;

thread_local! {
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

impl Alone {
    fn on_this_thread() -> Result<Self, FenceError> {
        if TAKEN.replace(true) { Err(FenceError::Invalid(Mistake::Nested)) } else { Ok(Self) }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        TAKEN.set(false);
    }
}

#[cfg(test)]
mod tests;
