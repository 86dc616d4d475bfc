//! Waiters of one process on one key.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

use super::Locks;
use super::faulty::Fate;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, key, soon};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::policy::LockPolicy;

const POLICY: LockPolicy = LockPolicy::new(LONG).wait_forever();
/// How long a turn is offered.
const OFFER: Duration = Duration::from_millis(100);

/// First come, first served.
pub async fn waiters_are_served_in_the_order_in_which_they_came(locks: &Locks<impl Service>) {
    let key = key("order");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let manager = locks.manager().await;
    let served = RefCell::new(Vec::new());
    let waits = async |number: usize| {
        let guard = manager.acquire(&key, &POLICY).await.unwrap();
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

/// Four that come back at once after each turn, until one of them has had 250.
pub async fn no_waiter_starves(locks: &Locks<impl Service>) {
    const TURNS: u32 = 250;
    let (manager, key) = (locks.manager().await, key("starving"));
    let served = [const { Cell::new(0) }; 4];
    let works = async |number: usize| {
        while served.iter().all(|turns| turns.get() < TURNS) {
            let guard = manager.acquire(&key, &POLICY).await.unwrap();
            served[number].set(served[number].get() + 1);
            yield_now().await;
            guard.release().await;
        }
    };
    tokio::join!(works(0), works(1), works(2), works(3));
    let (least, most) =
        (served.iter().map(Cell::get).min().unwrap(), served.iter().map(Cell::get).max().unwrap());
    assert!(least >= 200 && f64::from(least) >= 0.95 * f64::from(most), "{served:?}");
}

/// One waits at the service, forty-nine at home.
pub async fn waiters_of_one_process_cost_the_service_what_one_does(locks: &Locks<impl Service>) {
    let (key, wait) = (key("crowd"), locks.slack() * 2);
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let (service, manager) = locks.faulty(|_, _| Fate::Answered).await;
    let mut waits = JoinSet::new();
    for _ in 0..50 {
        let (manager, key) = (manager.clone(), key.clone());
        waits.spawn(async move { manager.acquire(&key, &POLICY.wait(wait)).await.map(drop) });
    }
    sleep(wait / 2).await;
    assert_eq!(service.contenders(), 1);
    while let Some(ended) = waits.join_next().await {
        let refusal = ended.unwrap().unwrap_err();
        // The last attempt of those at home has 40 ms; a busy machine may take longer.
        assert!(refusal.is_contended() || !locks.is_paused() && refusal.is_unavailable(), "{refusal:?}");
    }
    assert_eq!(service.contenders(), 50, "each has made its one attempt at least");
    holder.lease().check().unwrap();
}

/// The first has the turn, the others stand in line; then their runtimes hang.
pub async fn waiters_that_nobody_polls_do_not_stop_the_others(locks: &Locks<impl Service>) {
    type Wait<'a> = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + 'a>>;
    for (hanging, late) in [(3, Duration::ZERO), (1, Duration::ZERO), (1, OFFER * 2)] {
        let key = key("hanging");
        let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
        let manager = locks.manager().await;
        let wait = |_| Box::pin(manager.acquire(&key, &POLICY)) as Wait<'_>;
        let mut waits: Vec<Wait<'_>> = (0..hanging).map(wait).collect();
        for wait in &mut waits {
            assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        sleep(Duration::from_millis(20)).await;
        holder.release().await;
        sleep(late).await;
        let asked = Instant::now();
        let guard = soon("a turn", manager.acquire(&key, &POLICY)).await.unwrap();
        let took = asked.elapsed();
        assert!(took <= OFFER * 4 + locks.slack(), "{took:?} behind {hanging}");
        drop(guard);
        // They are served when somebody polls them again.
        for wait in waits {
            drop(soon("a late turn", wait).await.unwrap());
        }
    }
}
