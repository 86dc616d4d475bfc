use std::error::Error;

use lockrt::distributed_lock;

struct Store;

#[async_trait::async_trait]
trait Put {
    async fn put(&self) -> Result<u8, Box<dyn Error>>;
}

#[async_trait::async_trait]
impl Put for Store {
    #[distributed_lock(key = "q", ttl_ms = 10)]
    async fn put(&self) -> Result<u8, Box<dyn Error>> {
        Ok(1)
    }
}

fn main() {}
