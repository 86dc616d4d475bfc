//! What is written under a lock: [`Resource`].

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::fence::error::{FenceError, Mistake};
use crate::key::digest_of;

/// Longest name of a resource in bytes.
pub const MAX_RESOURCE_BYTES: usize = 1024;

/// The name of what is written, between 1 byte and [`MAX_RESOURCE_BYTES`].
///
/// It may hold personal data, as a lock's key may: `Debug` and `Display` show a digest, and only
/// [`as_str`](Self::as_str) gives the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Resource(Arc<str>);

impl Resource {
    pub(super) fn new(name: &str) -> Result<Self, FenceError> {
        match name.len() {
            0 => Err(FenceError::Invalid(Mistake::EmptyResource)),
            1..=MAX_RESOURCE_BYTES => Ok(Self(name.into())),
            bytes => Err(FenceError::Invalid(Mistake::LongResource { bytes })),
        }
    }

    /// The name. Keep it out of logs and metrics.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Resource {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", &digest_of(&self.0)[..12])
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({self})")
    }
}
