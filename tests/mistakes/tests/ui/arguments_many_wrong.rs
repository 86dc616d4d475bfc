use lockrt::distributed_lock;

#[distributed_lock(
    key = "quote {idd}{id}",
    ttl = 10_000,
    on_contention = wait,
    renew = auto,
    on_lost = "report",
    lease = 3,
    fencing = required,
    colour = 1
)]
async fn f(id: u64) -> Result<u64, lockrt::LockError> {
    Ok(id)
}

fn main() {
    let _ = f(1);
}
