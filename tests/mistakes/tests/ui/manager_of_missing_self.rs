use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, manager = &self.locks)]
async fn f(state: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
