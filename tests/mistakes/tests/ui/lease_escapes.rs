use lockrt::distributed_lock;

fn spawn(future: impl Future<Output = ()> + 'static) {
    drop(future);
}

#[distributed_lock(key = "q", ttl_ms = 10, lease = held)]
async fn spawned() -> Result<(), lockrt::LockError> {
    spawn(async move {
        let _ = held.check();
    });
    Ok(())
}

fn main() {}
