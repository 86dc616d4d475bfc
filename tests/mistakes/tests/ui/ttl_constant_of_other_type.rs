use lockrt::distributed_lock;

const SHORT: u32 = 10;

#[distributed_lock(key = "q", ttl_ms = SHORT)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
