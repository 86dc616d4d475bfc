use lockrt::distributed_lock;

#[distributed_lock(key = "q:{a}", ttl_ms = 10)]
#[distributed_lock(key = "q:{ a }", ttl_ms = 20)]
async fn f(a: u8) -> Result<u8, lockrt::LockError> {
    Ok(a)
}

fn main() {}
