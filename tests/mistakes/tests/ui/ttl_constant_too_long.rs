use lockrt::distributed_lock;

const TTL_MS: u64 = 10_000_000_000_000;

#[distributed_lock(key = "q", ttl_ms = TTL_MS)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
