use std::pin::Pin;

use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
fn hidden() -> impl Future<Output = u8> {
    async { 1 }
}

#[distributed_lock(key = "q", ttl_ms = 10)]
fn boxed() -> Pin<Box<dyn Future<Output = u8>>> {
    Box::pin(async move { 1 })
}

fn main() {
    let _ = (hidden(), boxed());
}
