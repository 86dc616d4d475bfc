use lockrt::distributed_lock;

struct Order;

#[distributed_lock(key = "q:{order:display}", ttl_ms = 10)]
async fn f(order: Order) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
