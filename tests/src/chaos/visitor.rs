//! Somebody who wants every hot key once when all faults have ended: what the workers draw is chance,
//! and on a slow machine a key that nobody wants is granted to nobody.

use std::time::Duration;

use lockrt::{LockManager, LockPolicy};
use tokio::task::JoinSet;

use super::history::Grant;
use super::record::now_ns;
use super::row::RECOVERY_MS;
use super::spot::{Spot, TTL};

/// How long the manager may take to give back what is left.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Takes each hot key of the lock server at `url` and gives it back: the grants, without those that
/// took too long.
pub(super) async fn visit(url: &str) -> Result<Vec<Grant>, String> {
    const POLICY: LockPolicy = LockPolicy::new(TTL).wait(Duration::from_millis(RECOVERY_MS));
    let manager = LockManager::from_url(url).await.map_err(|error| error.to_string())?;
    let mut visits = JoinSet::new();
    for spot in Spot::hot() {
        let manager = manager.clone();
        visits.spawn(async move {
            let asked_ns = now_ns();
            let guard = manager.acquire(&spot.key(), &POLICY).await.ok()?;
            let token = guard.lease().fencing()?.get();
            Some(Grant { spot, token, asked_ns, answered_ns: now_ns(), used: None })
        });
    }
    let grants = visits.join_all().await.into_iter().flatten().collect();
    manager.shutdown(SHUTDOWN).await;
    Ok(grants)
}
