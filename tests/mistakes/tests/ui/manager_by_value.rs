use lockrt::distributed_lock;

struct State {
    locks: lockrt::LockManager,
}

#[distributed_lock(key = "q", ttl_ms = 1_000, manager = state.locks)]
async fn f(state: State) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
