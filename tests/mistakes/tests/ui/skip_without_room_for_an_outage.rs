use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_contention = skip(7))]
async fn f() -> u8 {
    1
}

fn main() {}
