use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
fn f() {}

fn main() {}
