use lockrt::distributed_lock;

trait Store {
    #[distributed_lock(key = "q", ttl_ms = 10)]
    async fn put(&self);
}

fn main() {}
