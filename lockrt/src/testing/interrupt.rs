//! Interrupting a future wherever it can be interrupted.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::testing::{TestLocks, memory};

/// How often one future is polled at most. Each poll is interrupted three times in futures that are
/// polled as often: more would take minutes.
const MOST_POLLS: usize = 1_000;
/// How long one run may take; on a paused clock, which runs ahead of the time that has passed, a day.
const LONGEST: Duration = Duration::from_secs(60);
const LONGEST_PAUSED: Duration = Duration::from_secs(24 * 3_600);

/// Runs `body` again and again, interrupts it wherever it waits, and calls `check` after each run:
/// a test of what a locked function leaves behind when its caller goes away or its lease is lost.
///
/// After a run that is left alone there are three passes. The first drops the future of `body` after its first poll, then another
/// one after its second poll, and so on, until one comes to its end. The second does the same, but
/// drops each future when it is woken to go on: what it waited for has happened, and it never
/// learns of it. The third pass drops nothing. It takes every running lease away at the same
/// points, so that the locked body is dropped with [`Lost`](crate::LockError::Lost) and whoever
/// called it goes on.
///
/// `check` gets the output of `body`, or none if it was dropped. It may look at the state that
/// `body` works on, and call locked functions too: by then every lock is free again, also one that
/// `on_cancel = hold` or `min_hold` keeps. The state is yours: what one run leaves, the next one
/// finds, unless `body` or `check` puts it back.
///
/// This transfer takes the money before it waits and gives it afterwards. The panic says
/// "dropped at poll 3", which is where the body waits for the auditor:
///
/// ```should_panic
/// # use std::cell::Cell;
/// # use lockrt::{LockError, distributed_lock, testing};
/// #[distributed_lock(key = "account:{id}", ttl_ms = 10_000)]
/// async fn transfer(id: u64, from: &Cell<u64>, to: &Cell<u64>) -> Result<(), LockError> {
///     from.set(from.get() - 10);
///     audit().await;
///     to.set(to.get() + 10);
///     Ok(())
/// }
/// # async fn audit() { tokio::task::yield_now().await }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// let (from, to) = (Cell::new(1_000), Cell::new(0));
/// testing::interrupt_everywhere(|| transfer(7, &from, &to), async |_| {
///     assert_eq!(from.get() + to.get(), 1_000, "money is conserved");
/// })
/// .await;
/// # });
/// ```
///
/// With both changes on the same side of the wait the same test passes.
///
/// The locks are those of [`memory`], for as long as this runs. A service that holds its manager
/// itself is interrupted by [`TestLocks::interrupt_everywhere`].
///
/// # Panics
///
/// With the name of the run, such as "lease lost at poll 3", if `body` or `check` panics in it.
/// Also if `body` takes no lock of these, since then nothing is tested, or does not come to its
/// end within 1,000 polls and a minute (a day on a paused clock). Needs a tokio runtime with time.
///
/// # Cancellation
///
/// Stops where it is.
pub async fn interrupt_everywhere<T>(
    body: impl AsyncFnMut() -> T,
    check: impl AsyncFnMut(Option<T>),
) -> Interruptions {
    memory().interrupt_everywhere(body, check).await
}

impl TestLocks {
    /// As [`interrupt_everywhere`], for a body that takes its locks from these: a service, say,
    /// that was given a clone of the manager.
    ///
    /// ```
    /// use lockrt::{LockError, LockManager, distributed_lock};
    ///
    /// struct Shop {
    ///     locks: LockManager,
    /// }
    ///
    /// impl Shop {
    ///     #[distributed_lock(key = "order:{id}", ttl_ms = 10_000, manager = &self.locks)]
    ///     async fn order(&self, id: u64) -> Result<u64, LockError> {
    ///         tokio::task::yield_now().await;
    ///         Ok(id)
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// let locks = lockrt::testing::memory();
    /// let shop = Shop { locks: locks.clone() };
    /// let runs = locks.interrupt_everywhere(|| shop.order(7), async |ended| {
    ///     assert!(ended.is_none_or(|ended| ended.is_ok_and(|id| id == 7) || locks.held() == 0));
    /// });
    /// assert!(runs.await.lost() > 0);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// As [`interrupt_everywhere`].
    ///
    /// # Cancellation
    ///
    /// Stops where it is.
    pub async fn interrupt_everywhere<T>(
        &self,
        body: impl AsyncFnMut() -> T,
        check: impl AsyncFnMut(Option<T>),
    ) -> Interruptions {
        let granted = self.service.granted();
        let _slow = Slow::new(self);
        let mut runs = Runs { locks: self, body, check };
        runs.run(How::Dropped, usize::MAX).await;
        assert!(
            self.service.granted() > granted,
            "the future took no lock of these, so its interruptions say nothing about locks: is it \
             annotated, and is its manager the thread's default or the one of these locks?"
        );
        let dropped = runs.pass(How::Dropped).await;
        let woken = runs.pass(How::DroppedWhenWoken).await;
        let lost = runs.pass(How::LeaseLost).await;
        Interruptions { dropped: dropped + woken, lost }
    }

    /// Ends every running lease; whether there was one.
    fn lose_any(&self) -> bool {
        let lost = self.manager.lose(None);
        if lost {
            self.service.forget_all();
        }
        lost
    }

    /// Waits until what was given back is free, and frees what a policy keeps. Says whether a
    /// lease is left, and then has freed nothing.
    async fn settle(&self) -> bool {
        while !self.manager.is_settled() {
            sleep(Duration::from_millis(1)).await;
        }
        let leases = self.manager.has_lease();
        if !leases {
            self.service.forget_all();
        }
        leases
    }

    /// The same, and ends the leases that are left.
    async fn clear(&self) {
        if self.settle().await {
            self.lose_any();
        }
    }
}

/// Makes acquires and releases wait, so that they can be interrupted, too.
struct Slow<'l>(&'l TestLocks);

impl<'l> Slow<'l> {
    fn new(locks: &'l TestLocks) -> Self {
        locks.service.slow(true);
        Self(locks)
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.0.service.slow(false);
    }
}

/// How many runs [`interrupt_everywhere`] has interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruptions {
    dropped: usize,
    lost: usize,
}

impl Interruptions {
    /// How many futures were dropped, in both passes.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// In how many runs a lease was lost. None means that the body never waits under its lock.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost
    }
}

#[derive(Clone, Copy)]
enum How {
    Dropped,
    DroppedWhenWoken,
    LeaseLost,
}

/// What was done to one run, as its failure names it.
#[derive(Clone, Copy)]
struct Interruption {
    how: How,
    /// None if it was left alone.
    at: Option<usize>,
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at, self.how) {
            (None, _) => f.write_str("not interrupted"),
            (Some(poll), How::Dropped) => write!(f, "dropped at poll {poll}"),
            (Some(poll), How::DroppedWhenWoken) => write!(f, "dropped when woken after poll {poll}"),
            (Some(poll), How::LeaseLost) => write!(f, "lease lost at poll {poll}"),
        }
    }
}

struct Runs<'l, B, C> {
    locks: &'l TestLocks,
    body: B,
    check: C,
}

impl<T, B: AsyncFnMut() -> T, C: AsyncFnMut(Option<T>)> Runs<'_, B, C> {
    /// Interrupts one future at each poll, in turn; how many.
    async fn pass(&mut self, how: How) -> usize {
        let (mut from, mut interrupted) = (1, 0);
        while let Some(poll) = self.run(how, from).await {
            from = poll + 1;
            interrupted += 1;
        }
        interrupted
    }

    /// Interrupts one future, at poll `from` or as soon after it as there is something to
    /// interrupt, and checks; the poll, or none if it has ended before.
    async fn run(&mut self, how: How, from: usize) -> Option<usize> {
        let mut run = Interruption { how, at: None };
        let output = bounded(interrupted(self.locks, (self.body)(), from, &mut run)).await;
        let Some(output) = output else {
            panic!(
                "{run}: the future has not come to its end within {} s: does it wait for something that \
                 nobody does?",
                LONGEST.as_secs()
            )
        };
        if run.at.is_some() {
            self.locks.clear().await;
        } else {
            // The output may be a guard.
            self.locks.settle().await;
        }
        let mut check = pin!((self.check)(output));
        poll_fn(|cx| match caught(|| check.as_mut().poll(cx)) {
            Ok(polled) => polled,
            Err(text) => panic!("{run}: the check failed: {text}"),
        })
        .await;
        self.locks.clear().await;
        run.at
    }
}

/// The output of a future that is interrupted; none if it was dropped.
async fn interrupted<T>(
    locks: &TestLocks,
    future: impl Future<Output = T>,
    from: usize,
    run: &mut Interruption,
) -> Option<T> {
    let mut future = Box::pin(future);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    for poll in 1..=MOST_POLLS {
        match caught(|| future.as_mut().poll(&mut Context::from_waker(&waker))) {
            Ok(Poll::Ready(output)) => return Some(output),
            Ok(Poll::Pending) => {}
            Err(text) => panic!("{run}: the future panicked at poll {poll}: {text}"),
        }
        if run.at.is_none() && poll >= from {
            if let How::DroppedWhenWoken = run.how {
                bell.0.notified().await;
            }
            if let How::LeaseLost = run.how {
                run.at = locks.lose_any().then_some(poll);
            } else {
                run.at = Some(poll);
                let dropped = caught(|| drop(future));
                return dropped.map_or_else(|text| panic!("{run}: the drop panicked: {text}"), |()| None);
            }
        }
        bell.0.notified().await;
        // As a runtime does: a future that wakes itself lets others go first.
        yield_now().await;
    }
    panic!("{run}: the future has not come to its end within {MOST_POLLS} polls; interrupt a part of it")
}

/// Rings when the future is to be polled again, so that nothing else makes it count a poll.
#[derive(Default)]
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// What code of the user's gives, or says when it panics.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| String::from("see above"))
}

/// The output of `run` unless it takes too long.
async fn bounded<T>(run: impl Future<Output = T>) -> Option<T> {
    let (mut run, began) = (pin!(run), Instant::now());
    if let Ok(output) = timeout(LONGEST, run.as_mut()).await {
        return Some(output);
    }
    // A clock that says a minute after less than that is paused, and jumps from timer to timer.
    let paused = began.elapsed() < LONGEST / 2;
    if paused { timeout(LONGEST_PAUSED, run).await.ok() } else { None }
}
