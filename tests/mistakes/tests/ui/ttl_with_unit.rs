use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10s)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
