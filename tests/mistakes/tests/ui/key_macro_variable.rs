use lockrt::distributed_lock;

macro_rules! method {
    ($name:ident) => {
        #[distributed_lock(key = "repo:{stringify!($name)}", ttl_ms = 10)]
        async fn $name() -> Result<(), lockrt::LockError> {
            Ok(())
        }
    };
}

method!(f);

fn main() {}
