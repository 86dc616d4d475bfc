use lockrt::distributed_lock;

struct Builder;

impl Builder {
    fn new<F>(_: fn(u64) -> F) -> Self {
        Self
    }
}

#[lockrt_job_macro::job]
#[distributed_lock(key = "q:{id}", ttl_ms = 10)]
async fn f(id: u64) -> Result<u64, lockrt::LockError> {
    Ok(id)
}

fn main() {}
