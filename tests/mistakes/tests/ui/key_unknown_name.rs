use lockrt::distributed_lock;

#[distributed_lock(key = "quote:{tenat}:{id}", ttl_ms = 10)]
async fn f(tenant: &str, id: u64) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
