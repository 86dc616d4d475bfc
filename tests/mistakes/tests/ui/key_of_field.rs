use lockrt::distributed_lock;

struct Order {
    id: Option<u64>,
}

#[distributed_lock(key = "q:{order.id}", ttl_ms = 10)]
async fn f(order: Order) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
