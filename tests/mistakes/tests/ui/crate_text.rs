use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, crate = "lockrt")]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
