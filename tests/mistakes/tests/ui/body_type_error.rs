use lockrt::distributed_lock;

#[distributed_lock(key = "q:{id}", ttl_ms = 10)]
async fn wrong_tail(id: u64) -> Result<String, lockrt::LockError> {
    Ok(id)
}

#[distributed_lock(key = "q:{id}", ttl_ms = 10)]
async fn no_tail(id: u64) -> Result<String, lockrt::LockError> {
    Ok(id.to_string());
}

#[distributed_lock(key = "q:{id}", ttl_ms = 10)]
async fn unknown_name(id: u64) -> Result<String, lockrt::LockError> {
    Ok(idd.to_string())
}

fn main() {}
