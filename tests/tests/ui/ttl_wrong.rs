use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = "10s")]
async fn text() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 0)]
async fn zero() -> Result<(), lockrt::LockError> {
    Ok(())
}

const NONE: u64 = 0;

#[distributed_lock(key = "q", ttl_ms = NONE)]
async fn zero_constant() -> Result<(), lockrt::LockError> {
    Ok(())
}

const SHORT: u32 = 10;

#[distributed_lock(key = "q", ttl_ms = SHORT)]
async fn other_type() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = ttl)]
async fn argument(ttl: u64) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 1_000, renew = auto(max_ms = 500))]
async fn cap() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 20, renew = auto(max_ms = 500))]
async fn too_short() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
