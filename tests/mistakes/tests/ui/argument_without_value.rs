use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10, lease)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
