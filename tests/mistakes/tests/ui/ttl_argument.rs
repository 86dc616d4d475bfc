use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = ttl)]
async fn f(ttl: u64) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
