use lockrt::distributed_lock;

fn main() {
    #[distributed_lock(key = "q", ttl_ms = 10)]
    let _ = async || 1;
}
