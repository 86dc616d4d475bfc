use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
#[distributed_lock(key = "q", ttl_ms = 20)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
