use lockrt::distributed_lock;

const NONE: u64 = 0;

#[distributed_lock(key = "q", ttl_ms = NONE)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
