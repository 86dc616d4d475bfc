// sig 57
// kind: a PROOF argument: `_merge_lock_is_held: &ExclusiveLockProof`; closure generic `AsyncFnOnce(Proof) -> R`
// key wished: none here: the callee asks for evidence that the caller holds "{repo}-auto-build"
// contention wished: Outcome::Skipped
// trap: people want the guard (or a proof, or the fencing token) as a value inside the locked function
pub struct Proof {
    _p: (),
}
pub enum Outcome<R> {
    Performed(R),
    Skipped,
}
pub struct Db {
    busy: bool,
}
impl Db {
    pub async fn ensure_not_concurrent<F, R>(&self, repo: &str, func: F) -> anyhow::Result<Outcome<R>>
    where
        F: AsyncFnOnce(Proof) -> R,
    {
        let _name = format!("{repo}-auto-build");
        if self.busy {
            return Ok(Outcome::Skipped);
        }
        Ok(Outcome::Performed(func(Proof { _p: () }).await))
    }
}
#[lockrt::distributed_lock(key = "{branch_name}-merge", ttl_ms = 60_000, on_contention = fail)]
pub async fn attempt_merge(
    branch_name: &str,
    head_sha: &[u8; 20],
    merge_message: &str,
    _merge_lock_is_held: &Proof,
) -> anyhow::Result<bool> {
    anyhow::ensure!(!branch_name.is_empty() && head_sha[0] != 0, "{merge_message}");
    Ok(true)
}
