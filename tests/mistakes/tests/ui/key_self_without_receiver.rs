use lockrt::distributed_lock;

#[distributed_lock(key = "q:{self.id}", ttl_ms = 10)]
async fn f(id: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
