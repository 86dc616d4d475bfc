use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10, on_contention = wait)]
async fn wait() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 10, on_contention = wait(timeout_ms = 0))]
async fn no_wait() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 10, on_contention = "skip")]
async fn quoted() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 10, on_contention = skip(1))]
async fn wrong_value() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
