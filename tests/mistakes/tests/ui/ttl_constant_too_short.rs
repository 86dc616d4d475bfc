use lockrt::distributed_lock;

const TTL_MS: u64 = 9;

#[distributed_lock(key = "q", ttl_ms = TTL_MS)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
