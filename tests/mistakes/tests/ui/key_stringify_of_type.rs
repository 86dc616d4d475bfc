use lockrt::distributed_lock;

macro_rules! method {
    ($name:ident, $type:ty) => {
        #[distributed_lock(key = concat!("repo:", stringify!($type)), ttl_ms = 10)]
        async fn $name() -> Result<(), lockrt::LockError> {
            Ok(())
        }
    };
}

method!(f, Vec<u8>);

fn main() {}
