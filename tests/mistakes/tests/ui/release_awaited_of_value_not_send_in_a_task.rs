use std::error::Error;

use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
async fn put() -> Result<u8, Box<dyn Error>> {
    Ok(1)
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(put());
}
