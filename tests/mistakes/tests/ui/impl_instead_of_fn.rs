use lockrt::distributed_lock;

struct Order(u64);

#[distributed_lock(key = "q", ttl_ms = 10)]
impl Order {
    fn id(&self) -> u64 {
        self.0
    }
}

fn main() {}
