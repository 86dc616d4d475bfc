use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, lease = held)]
async fn f(held: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
