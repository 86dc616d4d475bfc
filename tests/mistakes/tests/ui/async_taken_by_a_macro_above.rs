use lockrt::distributed_lock;

#[tokio::main]
#[distributed_lock(key = "q", ttl_ms = 10)]
async fn main() -> Result<(), lockrt::LockError> {
    Ok(())
}
