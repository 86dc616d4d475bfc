//! One Redis server.
use crate::error::SetupError;
/// One Redis server.
#[derive(Debug, Clone)]
pub struct Redis;
impl Redis {
    /// x
    pub fn from_url(_: &str) -> Result<crate::backend::memory::Memory, SetupError> {
        Ok(crate::backend::memory::Memory::new())
    }
}
impl crate::backend::memory::Memory {
    /// x
    #[must_use]
    pub fn on_warning(self, _: fn(&str)) -> Self {
        self
    }
}
