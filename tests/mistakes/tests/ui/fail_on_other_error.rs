use lockrt::distributed_lock;

struct MyErr;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_contention = fail)]
async fn f() -> Result<u8, MyErr> {
    Ok(1)
}

fn main() {}
