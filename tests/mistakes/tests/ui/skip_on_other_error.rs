use lockrt::distributed_lock;

struct MyErr;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_contention = skip)]
async fn f() -> Result<(), MyErr> {
    Ok(())
}

fn main() {}
