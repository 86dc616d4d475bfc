use lockrt::distributed_lock;

#[distributed_lock]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(ttl_ms = 10)]
async fn g() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {
    let _ = (f(), g());
}
