use lockrt::distributed_lock;

struct MyErr;

#[distributed_lock(key = "q", ttl_ms = 10)]
async fn error_of_another_kind() -> Result<u8, MyErr> {
    Ok(1)
}

#[distributed_lock(key = "q", ttl_ms = 10)]
async fn unit() {}

#[distributed_lock(key = "q", ttl_ms = 10, on_contention = skip)]
async fn no_neutral_value() -> bool {
    true
}

#[distributed_lock(key = "q", ttl_ms = 10)]
async fn hidden() -> impl std::fmt::Display {
    1
}

#[distributed_lock(key = "q", ttl_ms = 10)]
async fn never() -> ! {
    loop {}
}

fn main() {}
