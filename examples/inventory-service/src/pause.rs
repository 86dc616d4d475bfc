//! A process that stops itself between its read and its write, as a debugger, a full host or a sleeping laptop would stop it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Does nothing, unless `--stop-before-write` was given: then the first one to come here stops the whole process.
#[derive(Debug)]
pub(crate) struct Pause {
    due: AtomicBool,
}

impl Pause {
    pub(crate) fn new(due: bool) -> Self {
        Self { due: AtomicBool::new(due) }
    }

    /// `raise` signals this very thread, so that not one more instruction of the body runs until somebody sends SIGCONT.
    pub(crate) fn here(&self) {
        if self.due.swap(false, Ordering::Relaxed) {
            #[cfg(unix)]
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
        }
    }
}
