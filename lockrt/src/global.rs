//! The manager that annotated functions use: one for the process, or another one for a thread.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::OnceCell;

use crate::error::{LockError, SetupError};
use crate::manager::LockManager;

static INSTALLED: OnceCell<LockManager> = OnceCell::new();

thread_local! {
    /// The latest last, each with the number of its guard.
    static DEFAULTS: RefCell<Vec<(u64, LockManager)>> = const { RefCell::new(Vec::new()) };
}

/// Makes `manager` the one that annotated functions of this process use. Call it once, in `main`.
///
/// # Errors
///
/// [`SetupError::AlreadyInstalled`] from the second call on.
pub fn install(manager: LockManager) -> Result<(), SetupError> {
    INSTALLED.set(manager).map_err(|_| SetupError::AlreadyInstalled)
}

/// Makes `manager` the one that annotated functions use when this thread polls them first, until
/// the guard is dropped, in whatever order guards are. It overrides an installed manager and an
/// earlier default.
pub fn set_default(manager: LockManager) -> DefaultGuard {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    DEFAULTS.with_borrow_mut(|defaults| defaults.push((number, manager)));
    DefaultGuard { number, on_its_thread: PhantomData }
}

/// Ends what [`set_default`] began; stays on its thread.
#[must_use = "the default ends as soon as its guard is dropped"]
pub struct DefaultGuard {
    number: u64,
    on_its_thread: PhantomData<*const ()>,
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        // Dropped after the borrow ends: the last clone of a manager runs code of its own.
        let manager = DEFAULTS.try_with(|defaults| {
            let mut defaults = defaults.borrow_mut();
            // Guards may be dropped in any order.
            let place = defaults.iter().position(|(number, _)| *number == self.number);
            place.map(|place| defaults.remove(place))
        });
        drop(manager);
    }
}

impl fmt::Debug for DefaultGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DefaultGuard")
    }
}

/// The thread's default, else the installed manager.
pub(crate) fn current() -> Result<LockManager, LockError> {
    let default = DEFAULTS.try_with(|defaults| defaults.borrow().last().map(|(_, manager)| manager.clone()));
    default.ok().flatten().or_else(|| INSTALLED.get().cloned()).ok_or(LockError::NotInstalled)
}
