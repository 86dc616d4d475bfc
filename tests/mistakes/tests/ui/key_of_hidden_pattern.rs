use lockrt::distributed_lock;

struct Store;

#[async_trait::async_trait]
trait Put {
    async fn put(&self, id: u8, (from, to): (u8, u8)) -> Result<u8, lockrt::LockError>;
}

#[async_trait::async_trait]
impl Put for Store {
    #[tracing::instrument(skip_all)]
    #[distributed_lock(key = "q:{from}", ttl_ms = 10)]
    async fn put(&self, id: u8, (from, to): (u8, u8)) -> Result<u8, lockrt::LockError> {
        Ok(id + from + to)
    }
}

fn main() {}
