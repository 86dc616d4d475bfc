use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
const fn f() {}

fn main() {}
