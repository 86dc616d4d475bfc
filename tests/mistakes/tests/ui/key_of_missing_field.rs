use lockrt::distributed_lock;

struct Order {
    id: u64,
}

#[distributed_lock(key = "q:{order.ident}", ttl_ms = 10)]
async fn f(order: Order) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
