//! On whose runtime a call is polled.
//!
//! Callers poll their own calls inside the keeper's runtime, so that what a backend spawns there outlives
//! them. A backend that can use the caller's runtime as well finds it here.

use std::cell::RefCell;

use tokio::runtime::Handle;

thread_local! {
    static CALLER: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// Runs `poll` inside of `keeper`, and remembers meanwhile where it was called.
pub(crate) fn polled_in<T>(keeper: &Handle, poll: impl FnOnce() -> T) -> T {
    let _before = Before(CALLER.replace(Handle::try_current().ok()));
    let _runtime = keeper.enter();
    poll()
}

/// The runtime of the caller whose call is being polled; none where the keeper polls, and where the caller has
/// none.
#[cfg_attr(not(any(feature = "redis", test)), expect(dead_code, reason = "no other backend asks"))]
pub(crate) fn runtime() -> Option<Handle> {
    CALLER.with_borrow(Clone::clone)
}

/// What was remembered before, put back on drop: a poll may panic.
struct Before(Option<Handle>);

impl Drop for Before {
    fn drop(&mut self) {
        let ours = CALLER.replace(self.0.take());
        // After the cell is free again: nobody knows what runs when a runtime ends.
        drop(ours);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_knows_the_runtime_of_its_caller_while_it_is_polled() {
        let [keeper, caller] =
            [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().build().unwrap());
        let seen = || runtime().map(|runtime| runtime.id());
        assert_eq!(polled_in(keeper.handle(), seen), None);
        let _inside = caller.enter();
        assert_eq!(seen(), None);
        let (within, around) = polled_in(keeper.handle(), || (seen(), Handle::current().id()));
        assert_eq!((within, around), (Some(caller.handle().id()), keeper.handle().id()));
        assert_eq!(seen(), None);
    }
}
