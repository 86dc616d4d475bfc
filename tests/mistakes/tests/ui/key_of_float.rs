use lockrt::distributed_lock;

#[distributed_lock(key = "q:{price}", ttl_ms = 10)]
async fn f(price: f64) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
