use lockrt::distributed_lock;

#[distributed_lock(key = "q:{a.load().await}", ttl_ms = 10)]
async fn f(a: &str) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
