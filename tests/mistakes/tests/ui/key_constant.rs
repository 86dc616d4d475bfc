use lockrt::distributed_lock;

const KEY: &str = "q";

#[distributed_lock(key = KEY, ttl_ms = 10)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
