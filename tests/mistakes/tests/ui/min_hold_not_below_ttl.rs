use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, min_hold_ms = 1_000)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
