//! Waiting for a condition, with a deadline in place of a bare sleep.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// How long anything may take that should take next to no time; generous, since machines stall.
const SOON: Duration = Duration::from_secs(5);

/// Asks again and again until `condition` is true.
///
/// # Panics
///
/// If it is not after five seconds; the message says `what` was waited for.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited {SOON:?} in vain until {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// The value of `future`, which must be ready soon.
///
/// # Panics
///
/// If it is not after five seconds; the message says `what` was waited for.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.unwrap_or_else(|_| panic!("waited {SOON:?} in vain for {what}"))
}
