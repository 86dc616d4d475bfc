use lockrt::distributed_lock;

#[distributed_lock("q:{id}", 1_000)]
async fn f(id: u64) -> Result<u64, lockrt::LockError> {
    Ok(id)
}

fn main() {}
