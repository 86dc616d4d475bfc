use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
fn f() -> impl Future<Output = u8> {
    async { 1 }
}

fn main() {}
