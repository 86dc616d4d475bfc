// sig 67
// kind: fn-pointer argument; `&Vec<(u8, String, usize)>`; `&mut Connection<'_, T>` with an anonymous lifetime
// key wished: "aggregate:{batch_id}"
// contention wished: skip
// trap: shadowing: the body re-binds an argument name used by the key (5.4% of all fns do), so the key must be computed before the body
pub struct Connection<'a, T> {
    tag: &'a str,
    t: T,
}
pub struct Prover;
#[derive(Clone, Copy)]
pub struct BatchId(u32);
impl std::fmt::Display for BatchId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[lockrt::distributed_lock(key = "aggregate:{batch_id:display}", ttl_ms = 60_000, on_contention = skip)]
pub(crate) async fn create_jobs(
    connection: &mut Connection<'_, Prover>,
    batch_id: BatchId,
    urls: &Vec<(u8, String, usize)>,
    circuit_id: fn(u8) -> u8,
) -> anyhow::Result<()> {
    let batch_id = batch_id.0 + 1;
    for (id, url, n) in urls {
        anyhow::ensure!(circuit_id(*id) > 0, "{url} {n} {batch_id} {}", connection.tag);
    }
    Ok(())
}
