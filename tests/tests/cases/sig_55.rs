// sig 55
// kind: the annotated function is made by macro_rules: names come as $method:ident, types as $ty:ty
// key wished: "user:{id}" written once inside the macro_rules body
// contention wished: wait
// trap: hygiene: identifiers inside the key STRING get the span of the literal; with $arg:ident names the lookup must still bind
pub struct Repo;
pub struct Fault;
macro_rules! repository_impl {
    ($($method:ident ( $($arg:ident : $ty:ty),* ) -> $ret:ty ;)*) => {
        impl Repo {
            $(
                #[lockrt::distributed_lock(key = concat!("repo:", stringify!($method)), ttl_ms = 5_000, on_contention = wait(timeout_ms = 2_000))]
                pub async fn $method(&mut self $(, $arg: $ty)*) -> Result<$ret, Fault> {
                    $( let _ = &$arg; )*
                    Ok(<$ret>::default())
                }
            )*
        }
    };
}
repository_impl! {
    set_admin(id: u64, on: bool) -> bool;
    rename(id: u64, name: &str) -> String;
}

impl From<lockrt::LockError> for Fault {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
