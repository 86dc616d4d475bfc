use lockrt::{LockManager, distributed_lock};

struct State {
    locks: LockManager,
}

#[distributed_lock(key = "q", ttl_ms = 10, manager = state.locks)]
async fn by_value(state: State) -> Result<(), lockrt::LockError> {
    Ok(())
}

#[distributed_lock(key = "q", ttl_ms = 10, manager = &self.locks)]
async fn no_self(state: State) -> Result<(), lockrt::LockError> {
    Ok(())
}

fn main() {}
