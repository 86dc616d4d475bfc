//! What a waiting claim was told, until it looks at its key.

use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock::{Clock, Moment};

/// Says when a waiting claim should look at its key.
///
/// It keeps what it was told until somebody listens, so that nothing goes unheard between an
/// attempt and the wait after it.
#[derive(Debug)]
pub(crate) struct Hint(watch::Sender<When>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Untold,
    At(Moment),
    Now,
}

impl Hint {
    pub(crate) fn new() -> Self {
        Self(watch::channel(When::Untold).0)
    }

    /// Look now.
    pub(crate) fn call(&self) {
        self.0.send_replace(When::Now);
    }

    /// Look at `at`, unless it was told to look earlier.
    pub(crate) fn look_at(&self, at: Moment) {
        self.0.send_if_modified(|when| {
            let later = match *when {
                When::Untold => true,
                When::At(earlier) => at < earlier,
                When::Now => false,
            };
            if later {
                *when = When::At(at);
            }
            later
        });
    }

    /// Somebody is about to look, so whatever was told has served its purpose.
    pub(crate) fn forget(&self) {
        self.0.send_if_modified(|when| {
            *when = When::Untold;
            false
        });
    }

    /// Resolves when it is time to look, once for what was told.
    ///
    /// # Cancellation
    ///
    /// Nothing is lost.
    pub(crate) async fn heard(&self, clock: Clock) {
        let mut told = self.0.subscribe();
        loop {
            let when = *told.borrow_and_update();
            match when {
                When::Now => break,
                When::At(at) if clock.now() >= at => break,
                When::At(at) => {
                    tokio::select! {
                        () = sleep(at.since(clock.now())) => {}
                        _ = told.changed() => {}
                    }
                }
                When::Untold => drop(told.changed().await),
            }
        }
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::*;

    const CLOCK: Clock = Clock::tokio();

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    async fn took(hint: &Hint) -> Duration {
        let started = Instant::now();
        hint.heard(CLOCK).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_before_anybody_listened_is_heard_once() {
        let hint = Hint::new();
        hint.call();
        assert_eq!(took(&hint).await, ms(0));
        assert!(timeout(ms(60_000), hint.heard(CLOCK)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_moment_counts_and_a_call_counts_more() {
        let hint = Hint::new();
        let now = CLOCK.now();
        hint.look_at(now + ms(300));
        hint.look_at(now + ms(100));
        hint.look_at(now + ms(200));
        assert_eq!(took(&hint).await, ms(100));
        hint.look_at(CLOCK.now() + ms(300));
        let (took, ()) = tokio::join!(took(&hint), async {
            sleep(ms(50)).await;
            hint.call();
            hint.look_at(CLOCK.now() + ms(500));
        });
        assert_eq!(took, ms(50));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_forgotten_is_not_heard() {
        let hint = Hint::new();
        hint.call();
        hint.forget();
        assert!(timeout(ms(60_000), hint.heard(CLOCK)).await.is_err());
        // Also by one who listens already.
        let (heard, ()) = tokio::join!(timeout(ms(1_000), hint.heard(CLOCK)), async {
            hint.look_at(CLOCK.now() + ms(500));
            tokio::task::yield_now().await;
            hint.forget();
            sleep(ms(600)).await;
            hint.call();
        });
        assert!(heard.is_ok());
    }
}
