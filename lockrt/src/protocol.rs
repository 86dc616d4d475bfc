//! Every decision of the lock, as state machines without I/O, clock or spawn: `step(event, now)`
//! gives actions, and the files of the running layer carry them out.

pub(crate) mod freeing;
pub(crate) mod keeping;
pub(crate) mod kept;
pub(crate) mod lease;
pub(crate) mod waiting;
