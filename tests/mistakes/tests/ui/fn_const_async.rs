use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
const async fn f() {}

fn main() {}
