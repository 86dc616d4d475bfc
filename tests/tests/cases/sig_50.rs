// sig 50
// kind: #[async_trait] method with self: Arc<Self> returning Arc<dyn Trait>
// key wished: "deployment:{deployment.0}"
// contention wished: wait
use async_trait::async_trait;
use std::sync::Arc;
#[derive(Clone, Copy)]
pub struct DeploymentId(pub i32);
pub trait Writable: Send + Sync {}
pub struct W;
impl Writable for W {}
#[derive(Debug)]
pub struct StoreError;
#[async_trait]
pub trait SubgraphStore: Send + Sync {
    async fn writable(
        self: Arc<Self>,
        deployment: DeploymentId,
        names: Arc<Vec<(u32, String)>>,
    ) -> Result<Arc<dyn Writable>, StoreError>;
}
pub struct Store;
#[async_trait]
impl SubgraphStore for Store {
    #[lockrt::distributed_lock(key = "deployment:{deployment.0}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
    async fn writable(
        self: Arc<Self>,
        deployment: DeploymentId,
        names: Arc<Vec<(u32, String)>>,
    ) -> Result<Arc<dyn Writable>, StoreError> {
        let _me = Arc::clone(&self);
        if names.is_empty() || deployment.0 == 0 {
            return Err(StoreError);
        }
        Ok(Arc::new(W))
    }
}

impl From<lockrt::LockError> for StoreError {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
