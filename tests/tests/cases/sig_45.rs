// sig 45
// kind: inherent method; `mut up_to`; anyhow::Result<()>; today locks by hand half-way through the body ("af:lease:{workspace_id}", 120 s)
// key wished: "af:lease:{workspace_id}"
// contention wished: skip with Ok(())
// trap: the hand-written code returns early WITHOUT the lock when there is nothing to do: an attribute would lock earlier than before
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rid {
    pub ts: u64,
    pub seq_no: u16,
}
pub type WorkspaceId = uuid::Uuid;
pub struct Manager {
    n: usize,
}
impl Manager {
    async fn updates(&self, _: &WorkspaceId, _: Rid) -> anyhow::Result<Vec<u8>> {
        Ok(vec![0; self.n])
    }

    /// Snapshots all pending updates for a workspace.
    #[tracing::instrument(level = "trace", skip_all)]
    #[lockrt::distributed_lock(key = "af:lease:{workspace_id}", ttl_ms = 120_000, on_contention = skip)]
    pub async fn snapshot_workspace(&self, workspace_id: WorkspaceId, mut up_to: Rid) -> anyhow::Result<()> {
        let all = self.updates(&workspace_id, up_to).await?;
        if all.is_empty() {
            return Ok(());
        }
        up_to.seq_no += 1;
        anyhow::ensure!(up_to.seq_no > 0, "wrapped");
        Ok(())
    }
}
