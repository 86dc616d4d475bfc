use lockrt::distributed_lock;

struct Order {
    id: u64,
}

impl Order {
    #[distributed_lock(key = "q:{id}", ttl_ms = 10)]
    async fn f(&self) -> Result<(), lockrt::LockError> {
        Ok(())
    }
}

fn main() {}
