use lockrt::distributed_lock;

const NO_WAIT_MS: u64 = 0;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_contention = wait(timeout_ms = NO_WAIT_MS))]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
