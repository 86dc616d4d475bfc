// sig 61
// kind: free fn; three borrowed parts make the key; today two hand-written unlocks here, six in the file; the lock covers only the ownership hand-over, not the whole body
// key wished: "/compact/merge/{org_id}/{stream_type}/{stream_name}"
// contention wished: wait (default 3600 s there) then re-check who owns the offset
// trap: path-like keys with '/' that also occurs inside stream names; a lock over the whole body would be much longer than the hand-written one
#[derive(Clone, Copy, PartialEq)]
pub enum StreamType {
    Logs,
    Metrics,
}
impl std::fmt::Display for StreamType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        })
    }
}

#[lockrt::distributed_lock(key = "/compact/merge/{org_id}/{stream_type:display}/{stream_name}", ttl_ms = 30_000, on_contention = wait(timeout_ms = 3_600_000))]
pub async fn generate_job(
    org_id: &str,
    stream_type: StreamType,
    stream_name: &str,
) -> Result<(), anyhow::Error> {
    let (mut offset, node) = (org_id.len(), stream_name.to_string());
    if node.is_empty() {
        return Ok(());
    }
    if stream_type == StreamType::Metrics {
        offset += 1;
    }
    if offset == 0 {
        return Err(anyhow::anyhow!("no offset"));
    }
    Ok(())
}
