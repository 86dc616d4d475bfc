//! The `#[distributed_lock]` attribute of `lockrt`.
