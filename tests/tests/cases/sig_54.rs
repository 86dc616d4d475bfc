// sig 54
// kind: a FREE fn with a `&self` receiver, legal only because another attribute moves it into an impl; no return Result, -> bool
// key wished: "room:{room_id}"
// contention wished: wait
// trap: the macro must parse receivers in item position, keep foreign attributes in order, and answer for `-> bool`
pub struct Service {
    rooms: Vec<String>,
}
// stand-in for what #[implement(Service)] makes of it
impl Service {
    #[inline]
    #[lockrt::distributed_lock(key = "room:{room_id}", ttl_ms = 5_000, on_contention = wait(timeout_ms = 2_000), on_error = |error| { tracing::error!(%error, "taken for absent"); false })]
    pub async fn exists(&self, room_id: &str) -> bool {
        if room_id.is_empty() {
            return false;
        }
        self.rooms.iter().any(|r| r == room_id)
    }
}
