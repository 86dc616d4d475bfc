// sig 69
// kind: SYNTHETIC; `async extern "C" fn`
// key wished: constant
// contention wished: error
// trap: keep or refuse, but do not drop the ABI silently

// A foreign caller cannot wait for a lock, so it is taken by a function of our own.
pub async extern "C" fn from_ffi(id: u64) -> u64 {
    guarded(id).await.unwrap_or(0)
}

#[lockrt::distributed_lock(key = "ffi", ttl_ms = 5_000, on_contention = fail)]
async fn guarded(id: u64) -> Result<u64, lockrt::LockError> {
    Ok(id + 1)
}
