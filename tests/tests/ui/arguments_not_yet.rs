use lockrt::distributed_lock;

#[distributed_lock(
    key = "q",
    ttl_ms = 10,
    on_error = |error, more| error.into(),
    on_cancel = hold,
    release = started,
    min_hold_ms = 5,
    fencing = required,
    on_contention = skip(|busy| Ok(()))
)]
async fn f() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {
    let _ = f();
}
