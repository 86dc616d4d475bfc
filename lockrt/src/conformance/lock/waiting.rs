//! How long an acquire takes, and how often it asks.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Locks;
use super::faulty::{Call, Fate};
use super::polled::polled;
use super::watching::{together, until};
use crate::claim::Released;
use crate::conformance::Service;
use crate::conformance::asking::{LONG, SOON, key, soon};
use crate::error::LockError;
use crate::manager::LockManager;
use crate::policy::{LockPolicy, OnCancel};

const WAIT: Duration = Duration::from_millis(300);
/// So long that no lease ends by itself.
const POLICY: LockPolicy = LockPolicy::new(LONG);

/// At its deadline and not before, as `Contended`.
pub async fn a_wait_ends_at_its_deadline(locks: &Locks<impl Service>) {
    let key = key("deadline");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let manager = locks.manager().await;
    let asked = Instant::now();
    let refusal = manager.acquire(&key, &POLICY.wait(WAIT)).await.unwrap_err();
    let took = asked.elapsed();
    assert!(took >= WAIT && took <= WAIT + locks.slack(), "{took:?}");
    match refusal {
        LockError::Contended { waited, retry_after, .. } => {
            assert!(waited >= WAIT && waited <= took, "{waited:?}");
            // It was right when the last answer left.
            assert!(retry_after.is_none_or(|left| left + WAIT <= LONG + locks.slack()), "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
    drop(holder);
}

/// A wait of no time gets a free lock, and knows contention from an outage.
pub async fn a_wait_of_nothing_makes_one_attempt(locks: &Locks<impl Service>) {
    let (manager, key, policy) = (locks.manager().await, key("nothing"), POLICY.wait(Duration::ZERO));
    // That attempt has 40 ms, and a busy machine may take longer to answer.
    let asks = async || loop {
        match manager.acquire(&key, &policy).await {
            Err(LockError::Unavailable { .. }) => {}
            answered => return answered,
        }
    };
    // What came too late for its caller stands in the way until it is cleaned up.
    let granted = async || loop {
        if let Ok(guard) = asks().await {
            return guard;
        }
    };
    let holder = soon("a free lock", granted()).await;
    let refusal = soon("a refusal", asks()).await.unwrap_err();
    assert!(refusal.is_contended(), "{refusal:?}");
    drop(holder);
}

/// Who stands behind another waiter of its process has a deadline of its own.
pub async fn a_wait_in_line_behind_another_one_ends_at_its_own_deadline(locks: &Locks<impl Service>) {
    let key = key("line");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let manager = locks.manager().await;
    let asked = Instant::now();
    let ends = async |wait: Duration| {
        let refusal = manager.acquire(&key, &POLICY.wait(wait)).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        asked.elapsed()
    };
    let (first, second) = tokio::join!(biased; ends(WAIT * 2), ends(WAIT));
    assert!(first >= WAIT * 2 && first <= WAIT * 2 + locks.slack(), "{first:?}");
    assert!(second >= WAIT && second <= WAIT + locks.slack(), "{second:?}");
    drop(holder);
}

/// A release wakes who waits; where the service cannot say so, the next poll finds it.
pub async fn a_wait_gets_the_lock_soon_after_its_release(locks: &Locks<impl Service>) {
    let key = key("released");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let manager = locks.manager().await;
    // A poll comes after two thirds of the TTL.
    let (ttl, late) =
        if locks.capabilities().wakes() { (LONG, Duration::ZERO) } else { (locks.short(), locks.short()) };
    let policy = LockPolicy::new(ttl).wait(Duration::from_secs(4));
    let waits = async { (manager.acquire(&key, &policy).await.unwrap(), Instant::now()) };
    let gives_back = async {
        sleep(WAIT).await;
        assert_eq!(holder.release().await, Released::Freed);
        Instant::now()
    };
    let ((guard, got), released) = tokio::join!(waits, gives_back);
    assert!(got <= released + late + locks.slack(), "{:?}", got - released);
    guard.lease().check().unwrap();
}

/// Nobody tells of a lease that ends by itself.
pub async fn a_wait_gets_the_lock_when_its_holder_is_gone(locks: &Locks<impl Service>) {
    let (key, ttl) = (key("gone"), locks.short());
    let asked = Instant::now();
    let holds = LockPolicy::new(ttl).on_cancel(OnCancel::Hold);
    drop(locks.manager().await.acquire(&key, &holds).await.unwrap());
    let manager = locks.manager().await;
    let guard = soon("the lock", manager.acquire(&key, &POLICY.wait_forever())).await.unwrap();
    let took = asked.elapsed();
    assert!(took >= ttl && took <= ttl + locks.slack(), "{took:?}");
    drop(guard);
}

/// A wake-up is a hint to all, and only one can win.
pub async fn a_woken_loser_waits_on_to_its_own_deadline(locks: &Locks<impl Service>) {
    let key = key("loser");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let managers = [locks.manager().await, locks.manager().await];
    let asked = Instant::now();
    let policy = POLICY.wait(WAIT * 3);
    // The winner keeps the lock in its result until both have ended.
    let waits = async |manager: &LockManager| (manager.acquire(&key, &policy).await, asked.elapsed());
    let releases = async {
        sleep(WAIT).await;
        assert_eq!(holder.release().await, Released::Freed);
    };
    let (first, second, ()) = tokio::join!(waits(&managers[0]), waits(&managers[1]), releases);
    let ((winner, _), (loser, lost)) = if first.0.is_ok() { (first, second) } else { (second, first) };
    winner.unwrap().lease().check().unwrap();
    assert!(loser.unwrap_err().is_contended());
    assert!(lost >= WAIT * 3 && lost <= WAIT * 3 + locks.slack(), "{lost:?}");
}

/// Dropped in its attempt, or in its pause.
pub async fn a_cancelled_wait_never_acquires_later(locks: &Locks<impl Service>) {
    let key = key("cancelled");
    for polls in 1..4 {
        let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
        let (manager, policy) = (locks.yielding().await, POLICY.wait_forever());
        // A pause with nothing to wake it is where the wait ends up.
        let wait = timeout(WAIT, polled(polls, manager.acquire(&key, &policy), async {}));
        assert!(!matches!(wait.await, Ok(Some(_))));
        assert_eq!(holder.release().await, Released::Freed);
        // An attempt that was on its way may have come behind the release; then it is cleaned up.
        until("the lock is free", async || !locks.holds(&key).await).await;
        let watched = Instant::now();
        while watched.elapsed() < WAIT {
            assert!(!locks.holds(&key).await, "cancelled after {polls} polls");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A service that nobody asks is not silent.
pub async fn a_wait_longer_than_the_bound_on_silence_ends_with_the_lock(locks: &Locks<impl Service>) {
    let key = key("patient");
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let (manager, policy) = (locks.manager().await, POLICY.wait(Duration::from_secs(30)));
    let releases = async {
        sleep(Duration::from_millis(3_500)).await;
        assert_eq!(holder.release().await, Released::Freed);
    };
    let (waited, ()) = tokio::join!(manager.acquire(&key, &policy), releases);
    waited.unwrap().lease().check().unwrap();
}

/// Attempts without an answer do not count, and after the first answer there are no more.
pub async fn fail_is_exactly_one_answered_attempt(locks: &Locks<impl Service>) {
    for unanswered in 0..3 {
        let plan = move |call, number| match call {
            Call::Acquire if number <= unanswered => Fate::Unknown,
            Call::Acquire => Fate::Denied,
            _ => Fate::Answered,
        };
        let ((service, manager), key) = (locks.faulty(plan).await, key("once"));
        let refusal = manager.acquire(&key, &POLICY).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        assert_eq!(service.calls(Call::Acquire), unanswered + 1);
        let refusal = manager.try_acquire(&key, &POLICY.wait_forever()).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        assert_eq!(service.calls(Call::Acquire), unanswered + 2);
    }
}

/// The least of the TTL, three seconds and the wait.
pub async fn a_silent_service_holds_nobody_longer_than_the_bound(locks: &Locks<impl Service>) {
    let (short, second, day) = (locks.short(), Duration::from_secs(1), Duration::from_secs(86_400));
    let policy = LockPolicy::new(short);
    let cases = [
        (policy, short),
        (POLICY, second * 3),
        (policy.wait(WAIT), WAIT),
        (policy.wait(day), short),
        (POLICY.wait(WAIT), WAIT),
        (POLICY.wait(second * 2), second * 2),
        (POLICY.wait(day), second * 3),
        (policy.wait_forever(), short),
        (POLICY.wait_forever(), second * 3),
    ];
    together(cases.map(|(policy, bound)| ends_within(locks, policy, bound.min(second * 3)))).await;
}

async fn ends_within(locks: &Locks<impl Service>, policy: LockPolicy, bound: Duration) {
    let (_, manager) = locks.faulty(|_, _| Fate::Silent).await;
    let asked = Instant::now();
    let refusal = manager.acquire(&key("silent"), &policy).await.unwrap_err();
    let took = asked.elapsed();
    assert!(refusal.is_unavailable(), "{policy:?}: {refusal:?}");
    assert!(took <= bound + locks.slack(), "{took:?} for {policy:?}");
    assert!(took >= bound / 2, "gave up after {took:?}: {policy:?}");
}

/// It waits for ever for a holder, never for a service that is dead.
pub async fn a_wait_for_ever_ends_when_the_service_falls_silent(locks: &Locks<impl Service>) {
    let (key, ttl) = (key("forever"), locks.short());
    let (service, manager) = locks.faulty(|_, _| Fate::Answered).await;
    let holder = locks.manager().await.acquire(&key, &POLICY).await.unwrap();
    let policy = LockPolicy::new(ttl).wait_forever();
    let falls_silent = async {
        sleep(ttl * 3).await;
        service.follow(|_, _| Fate::Silent);
        Instant::now()
    };
    let waits = async { (manager.acquire(&key, &policy).await, Instant::now()) };
    let both = async { tokio::join!(waits, falls_silent) };
    let ((waited, ended), silent) = timeout(ttl * 3 + SOON, both).await.expect("the wait ends");
    let refusal = waited.unwrap_err();
    assert!(refusal.is_unavailable(), "{refusal:?}");
    // The next attempt is due within two thirds of the TTL, a quarter more for jitter.
    assert!(ended - silent <= ttl * 5 / 6 + ttl + locks.slack(), "{:?}", ended - silent);
    drop(holder);
}
