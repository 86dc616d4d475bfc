use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_contention = skip(async |busy| Ok(())))]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
