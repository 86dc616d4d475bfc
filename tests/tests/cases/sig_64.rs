// sig 64
// kind: `ref room_id: OwnedRoomId` (by-ref binding of an owned argument); #[instrument(fields(room_id = ?room_id))]; tuple of collections returned
// key wished: "room:{room_id}"
// contention wished: wait
use std::collections::HashSet;
#[derive(Debug, Clone)]
pub struct OwnedRoomId(String);
impl std::fmt::Display for OwnedRoomId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
pub struct Fault;

#[tracing::instrument(name = "joined", level = "debug", skip_all, fields(room_id = ?room_id))]
#[allow(clippy::too_many_arguments)]
#[lockrt::distributed_lock(key = "room:{room_id:display}", ttl_ms = 5_000, on_contention = wait(timeout_ms = 2_000))]
async fn load_joined_room(
    services: &u8,
    ref room_id: OwnedRoomId,
    since: u64,
) -> Result<(OwnedRoomId, HashSet<u64>), Fault> {
    if since == 0 {
        return Err(Fault);
    }
    Ok((room_id.clone(), HashSet::from([since, u64::from(*services)])))
}

impl From<lockrt::LockError> for Fault {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
