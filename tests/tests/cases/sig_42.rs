// sig 42
// kind: cron job given as a CLOSURE `|uuid, mut l| Box::pin(async move { .. })`: attributes cannot go on closures
// key wished: "schedule:{code}"
// contention wished: skip, and keep the lock until its TTL so that a fast node does not rerun the same tick
// trap: README must show the move to a named fn; `lockAtLeastFor` semantics
use std::future::Future;
use std::pin::Pin;
pub type Tick = Box<dyn FnMut(uuid::Uuid, u32) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;
pub fn schedule(code: String) -> Tick {
    Box::new(move |uuid, mut l| {
        let code = code.clone();
        Box::pin(async move {
            l += 1;
            tick(code, uuid, l).await
        })
    })
}
#[lockrt::distributed_lock(key = "schedule:{code}", ttl_ms = 60_000, on_contention = skip, min_hold_ms = 30_000)]
async fn tick(code: String, _uuid: uuid::Uuid, _l: u32) {
    tracing::info!(%code, "tick");
}
