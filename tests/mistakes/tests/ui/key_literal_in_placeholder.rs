use lockrt::distributed_lock;

#[distributed_lock(key = "q:{7}", ttl_ms = 10)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
