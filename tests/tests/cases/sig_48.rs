// sig 48
// kind: self: Arc<Self>; bare `Result` alias whose parameters are all defaulted; #[instrument(skip(self))]
// key wished: "sender:{self.server}:{id}"
// contention wished: wait for ever
// trap: the macro cannot read an error type out of `-> Result`
use std::sync::Arc;
#[derive(Debug)]
pub struct Fault;
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("fault")
    }
}
pub type Result<T = (), E = Fault> = std::result::Result<T, E>;
pub struct Service {
    server: String,
}
impl Service {
    #[tracing::instrument(skip(self), level = "debug")]
    #[lockrt::distributed_lock(key = "sender:{self.server}:{id}", ttl_ms = 15_000, on_contention = wait(forever))]
    pub(super) async fn sender(self: Arc<Self>, id: usize) -> Result {
        let me = self.clone();
        tokio::spawn(async move { drop(me) }).await.map_err(|_| Fault)?;
        if id > 64 {
            return Err(Fault);
        }
        Ok(())
    }
}

impl From<lockrt::LockError> for Fault {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
