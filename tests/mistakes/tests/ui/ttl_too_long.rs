use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 2_678_400_001)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
