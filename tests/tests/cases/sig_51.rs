// sig 51
// kind: self: &Arc<Self>; FnOnce generic; Send + 'static bounds
// key wished: constant "render"
// contention wished: wait
use std::sync::Arc;
pub struct Templates {
    n: usize,
}
impl Templates {
    /// offload CPU intensive rendering
    #[lockrt::distributed_lock(key = "render:{self.n}", ttl_ms = 5_000, on_contention = wait(timeout_ms = 2_000))]
    pub(crate) async fn render<F, R>(self: &Arc<Self>, render_fn: F) -> anyhow::Result<R>
    where
        F: FnOnce(&Templates) -> anyhow::Result<R> + Send + 'static,
        R: Send + 'static,
    {
        let me = Arc::clone(self);
        tokio::task::spawn_blocking(move || render_fn(&me)).await?
    }
}
