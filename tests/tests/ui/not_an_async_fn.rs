use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
fn sync() {}

#[distributed_lock(key = "q", ttl_ms = 10)]
const fn constant() {}

#[distributed_lock(key = "q", ttl_ms = 10)]
async extern "C" fn foreign() {}

#[distributed_lock(key = "q", ttl_ms = 10)]
struct Order {
    id: u64,
}

trait Store {
    #[distributed_lock(key = "q", ttl_ms = 10)]
    async fn put(&self);
}

#[distributed_lock(key = "q", ttl_ms = 10)]
impl Order {
    fn id(&self) -> u64 {
        self.id
    }
}

fn main() {
    sync();
    constant();
}
