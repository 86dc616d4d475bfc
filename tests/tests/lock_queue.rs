//! Waiters of one process on one key.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Waker};
use std::time::Duration;

use lockrt::{LockError, LockGuard, LockKey, LockPolicy};
use lockrt_tests::{Setup, on_each_backend, soon};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(60)).wait_forever();
/// How long a turn is offered.
const OFFER: Duration = Duration::from_millis(100);

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    waiters_are_served_in_the_order_in_which_they_came,
    no_waiter_starves,
    waiters_that_nobody_polls_do_not_stop_the_others,
}

async fn waiters_are_served_in_the_order_in_which_they_came(setup: &impl Setup) {
    let holder = setup.manager().acquire(&KEY, &POLICY).await.unwrap();
    let manager = setup.manager();
    let served = RefCell::new(Vec::new());
    let waits = async |number: usize| {
        let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
        served.borrow_mut().push(number);
        guard.release().await;
    };
    let releases = async {
        sleep(Duration::from_millis(50)).await;
        assert!(served.borrow().is_empty());
        holder.release().await;
    };
    // Branches of a biased join are first polled in the order in which they are written.
    let all = async {
        tokio::join!(
            biased;
            waits(0),
            waits(1),
            waits(2),
            waits(3),
            waits(4),
            waits(5),
            waits(6),
            waits(7),
            releases
        )
    };
    soon("all turns", Box::pin(all)).await;
    assert_eq!(served.into_inner(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

async fn no_waiter_starves(setup: &impl Setup) {
    const TURNS: u32 = 250;
    let manager = setup.manager();
    let served = [const { Cell::new(0) }; 4];
    let works = async |number: usize| {
        // Until one of them has had its turns.
        while served.iter().all(|turns| turns.get() < TURNS) {
            let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
            served[number].set(served[number].get() + 1);
            yield_now().await;
            guard.release().await;
        }
    };
    tokio::join!(works(0), works(1), works(2), works(3));
    let (least, most) =
        (served.iter().map(Cell::get).min().unwrap(), served.iter().map(Cell::get).max().unwrap());
    assert!(f64::from(least) >= 0.95 * f64::from(most), "{served:?}");
}

async fn waiters_that_nobody_polls_do_not_stop_the_others<S: Setup>(setup: &S) {
    type Wait<'a> = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + 'a>>;
    for (hanging, late) in [(3, Duration::ZERO), (1, Duration::ZERO), (1, OFFER * 2)] {
        let holder = setup.manager().acquire(&KEY, &POLICY).await.unwrap();
        let manager = setup.manager();
        // The first has the turn, the others stand in line; then their runtimes hang.
        let wait = |_| Box::pin(manager.acquire(&KEY, &POLICY)) as Wait<'_>;
        let mut waits: Vec<Wait<'_>> = (0..hanging).map(wait).collect();
        for wait in &mut waits {
            assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        sleep(Duration::from_millis(20)).await;
        holder.release().await;
        sleep(late).await;
        let asked = Instant::now();
        let guard = soon("a turn", manager.acquire(&KEY, &POLICY)).await.unwrap();
        let took = asked.elapsed();
        assert!(took <= OFFER * 4 + S::SLACK, "{took:?} behind {hanging}");
        drop(guard);
        // They are served when somebody polls them again.
        for wait in waits {
            drop(soon("a late turn", wait).await.unwrap());
        }
    }
}
