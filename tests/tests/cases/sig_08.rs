// sig 08
// kind: private helper shared by two handlers; bool parameter that must NOT be part of the key
// key wished: "crate:{path.name}:{path.version}"
// contention wished: wait(2s)
// trap: yank and unyank must exclude each other, so the two public handlers must share one key, not one key per function name
use axum::http::request::Parts;
pub struct VersionPath {
    pub name: String,
    pub version: Semver,
}
#[derive(Clone, PartialEq)]
pub struct Semver(u64, u64, u64, String);
impl std::fmt::Display for Semver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}+{}", self.0, self.1, self.2, self.3)
    }
}
#[derive(Clone)]
pub struct AppState;
pub struct Boxed;

#[lockrt::distributed_lock(key = "crate:{path.name}:{path.version:display}", ttl_ms = 10_000, on_contention = wait(timeout_ms = 2_000))]
async fn modify_yank(path: VersionPath, state: AppState, req: Parts, yanked: bool) -> Result<(), Boxed> {
    let _ = (state, req);
    if yanked && path.name.is_empty() {
        return Err(Boxed);
    }
    Ok(())
}
pub async fn yank(app: AppState, path: VersionPath, req: Parts) -> Result<(), Boxed> {
    modify_yank(path, app, req, true).await
}

impl From<lockrt::LockError> for Boxed {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
