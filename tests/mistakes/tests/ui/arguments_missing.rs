use lockrt::distributed_lock;

#[distributed_lock]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
