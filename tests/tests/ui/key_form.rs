use lockrt::distributed_lock;

#[distributed_lock(key = "q:{a:?}:{b:hash}:{c:04}:{}:{$d}:{a.get(0)?}:{b.c.await}", ttl_ms = 10)]
async fn f(a: &str, b: u8, c: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {
    let _ = f("", 2, 3);
}
