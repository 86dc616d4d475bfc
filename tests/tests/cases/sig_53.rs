// sig 53
// kind: attribute on the RECEIVER: `#[allow(unused_mut)] mut self`; Arc<dyn Trait + Send + Sync>
// key wished: "mint:{self.name}"
// contention wished: error
use std::sync::Arc;
pub trait Signatory {
    fn name(&self) -> String;
}
pub struct Builder {
    name: String,
}
impl Builder {
    #[lockrt::distributed_lock(key = "mint:{self.name}", ttl_ms = 10_000, on_error = |error| Err(error.to_string()))]
    pub async fn build(
        #[allow(unused_mut)] mut self,
        signatory: Arc<dyn Signatory + Send + Sync>,
    ) -> Result<String, String> {
        if signatory.name().is_empty() {
            return Err(self.name);
        }
        Ok(signatory.name())
    }
}
