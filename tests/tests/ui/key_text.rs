use lockrt::distributed_lock;

#[distributed_lock(key = "q r:{a}", ttl_ms = 10)]
async fn space(a: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "{{q}}", ttl_ms = 10)]
async fn braces() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "", ttl_ms = 10)]
async fn empty() -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q:{a", ttl_ms = 10)]
async fn open(a: u8) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q:{a.find(\"}\")", ttl_ms = 10)]
async fn open_string(a: &str) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q:{a.find('é)}", ttl_ms = 10)]
async fn open_char(a: &str) -> Result<(), lockrt::LockError> {
    Ok(())
}

const KEY: &str = "q";

#[distributed_lock(key = KEY, ttl_ms = 10)]
async fn constant() -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
