use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_error = |error| Ok(id))]
async fn f(id: String) -> Result<String, lockrt::LockError> {
    Ok(id)
}

fn main() {}
