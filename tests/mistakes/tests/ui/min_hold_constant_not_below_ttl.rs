use lockrt::distributed_lock;

const LONG: u64 = 2_000;

#[distributed_lock(key = "q", ttl_ms = 1_000, min_hold_ms = LONG)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
