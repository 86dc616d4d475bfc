use lockrt::distributed_lock;

#[distributed_lock(key = "q")]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
