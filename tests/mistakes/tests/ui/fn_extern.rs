use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 10)]
async extern "C" fn f() {}

fn main() {}
