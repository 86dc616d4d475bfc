use lockrt::distributed_lock;

struct Order {
    id: Option<u64>,
}

#[distributed_lock(key = "q:{a}", ttl_ms = 10)]
async fn plain(a: Option<u8>) -> Result<(), lockrt::LockError> {
    let _ = a;
    Ok(())
}

#[distributed_lock(key = "q:{order.id}", ttl_ms = 10)]
async fn field(order: Order) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q:{order.ident}", ttl_ms = 10)]
async fn no_field(order: Order) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q:{price:display}:{price}", ttl_ms = 10)]
async fn float(price: f64) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
