use lockrt::distributed_lock;

#[distributed_lock(key = "q:{a}-{b}", ttl_ms = 10)]
async fn f(a: u8, b: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
