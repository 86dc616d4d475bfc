use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, renew = auto(max_ms = 500))]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
