// sig 62
// kind: `pub async unsafe fn` whose safety contract is exclusive access to a file by other processes (a lock is literally the contract)
// key wished: "tree-cache:{cache_path.display()}"
// contention wished: error
// trap: the wrapper must keep `unsafe`, and the body keeps its unsafe context inside an async block
use std::path::Path;

/// # Safety
///
/// The caller must ensure that the cache file is not accessed by other processes.
#[tracing::instrument(level = "info", skip_all, fields(tree_depth))]
#[lockrt::distributed_lock(key = "tree-cache:{cache_path.display():display}", ttl_ms = 60_000, on_contention = fail, fencing = required)]
pub async unsafe fn init_tree(db: &u64, cache_path: &Path, tree_depth: usize) -> anyhow::Result<u64> {
    let p: *const u64 = db;
    let v = unsafe { *p };
    anyhow::ensure!(cache_path.exists() || tree_depth > 0, "depth");
    Ok(v)
}
