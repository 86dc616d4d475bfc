use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10, lease = held)]
async fn f(held: u8) -> Result<u8, lockrt::LockError> {
    Ok(held)
}

fn main() {
    let _ = f(1);
}
