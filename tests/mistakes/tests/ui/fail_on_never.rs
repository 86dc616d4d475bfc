use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_contention = fail)]
async fn f() -> ! {
    loop {}
}

fn main() {}
