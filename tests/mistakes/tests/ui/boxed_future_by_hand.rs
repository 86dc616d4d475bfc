use std::pin::Pin;

use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
fn f(id: u8) -> Pin<Box<dyn Future<Output = u8>>> {
    let twice = id * 2;
    Box::pin(async move { twice })
}

fn main() {}
