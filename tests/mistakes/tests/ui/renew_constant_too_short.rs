use lockrt::distributed_lock;

const SHORT: u64 = 20;

#[distributed_lock(key = "q", ttl_ms = SHORT, renew = auto(max_ms = 1_000))]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
