use lockrt::distributed_lock;

#[distributed_lock(key = "q r:{a}", ttl_ms = 10)]
async fn f(a: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
