//! Calls that are dropped wherever they can be.

use std::time::Duration;

use lockrt::LockManager;
use tokio::time::sleep;

use crate::{Traced, Watch, polled, settled};

/// How long an answer takes at most that a dropped call never sees.
const LINGER: Duration = Duration::from_millis(20);

/// Makes a call and drops it after its first poll, another one after its second, and so on until
/// one is ready: both at once, and when the answers have come that it never sees. Each time
/// nothing may be left. Gives how many polls a call takes.
///
/// # Panics
///
/// If something is left; the message says what, and after how many polls.
pub async fn dropped_at_every_poll<T>(setup: &impl Traced, call: impl AsyncFn(&LockManager) -> T) -> usize {
    let mut watch = Watch::start(setup).await;
    let mut most = 0;
    for linger in [Duration::ZERO, LINGER] {
        for polls in 0.. {
            let case = format!("dropped after {polls} polls and {linger:?}");
            let manager = setup.manager();
            let lingers = async {
                if !linger.is_zero() {
                    sleep(linger).await;
                }
            };
            let ended = polled(polls, call(&manager), lingers).await.is_some();
            // Before the shutdown, which would take what was left.
            watch.nothing_is_stored(&case).await;
            settled(manager, &case).await;
            watch.nothing_is_left(&case).await;
            if ended {
                most = most.max(polls);
                break;
            }
        }
    }
    most
}
