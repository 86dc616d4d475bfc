use lockrt::distributed_lock;

#[distributed_lock(key = "q:{id}", ttl_ms = 10)]
fn f(id: u8) -> std::pin::Pin<Box<dyn Future<Output = u8> + Send>> {
    Box::pin(async move { id })
}

fn main() {}
