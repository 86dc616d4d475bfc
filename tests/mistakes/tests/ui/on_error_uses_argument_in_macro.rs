use lockrt::distributed_lock;

#[distributed_lock(key = "q", ttl_ms = 1_000, on_error = |error| format!("{error} {id}"))]
async fn f(id: String) -> String {
    id
}

fn main() {}
