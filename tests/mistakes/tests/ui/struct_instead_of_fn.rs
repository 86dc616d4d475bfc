use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
struct Order {
    id: u64,
}

fn main() {}
