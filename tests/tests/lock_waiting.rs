//! How long an acquire takes, and how often it asks.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::Duration;

use lockrt::{LockError, LockKey, LockPolicy, Released};
use lockrt_tests::{Call, Fate, Faulty, Setup, on_each_backend, polled, soon, until};
use tokio::time::{Instant, sleep, timeout};

const WAIT: Duration = Duration::from_millis(300);
/// So long that no lease ends by itself.
const LONG: LockPolicy = LockPolicy::new(Duration::from_secs(60));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

on_each_backend! {
    a_wait_ends_at_its_deadline,
    a_wait_of_nothing_makes_one_attempt,
    a_wait_in_line_behind_another_one_ends_at_its_own_deadline,
    a_wait_gets_the_lock_soon_after_its_release,
    a_wait_gets_the_lock_when_its_holder_is_gone,
    a_woken_loser_waits_on_to_its_own_deadline,
    a_cancelled_wait_never_acquires_later,
    a_wait_for_longer_than_the_bound_on_silence_ends_with_the_lock,
}

async fn a_wait_ends_at_its_deadline<S: Setup>(setup: &S) {
    let _holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let manager = setup.manager();
    let started = Instant::now();
    let refusal = manager.acquire(&KEY, &LONG.wait(WAIT)).await.unwrap_err();
    let took = started.elapsed();
    assert!(took >= WAIT && took <= WAIT + S::SLACK, "{took:?}");
    match refusal {
        LockError::Contended { waited, retry_after: Some(left), .. } => {
            assert!(waited >= WAIT && waited <= took, "{waited:?}");
            // It was right when the last answer left.
            assert!(left + WAIT <= LONG.ttl() + S::SLACK, "{left:?}");
        }
        other => panic!("{other:?}"),
    }
}

async fn a_wait_of_nothing_makes_one_attempt(setup: &impl Setup) {
    let policy = LONG.wait(Duration::ZERO);
    let manager = setup.manager();
    // That attempt has 40 ms, and a busy machine may take longer to answer.
    let asks = async || loop {
        match manager.acquire(&KEY, &policy).await {
            Err(LockError::Unavailable { .. }) => {}
            answered => return answered,
        }
    };
    let holder = soon("a free lock", asks()).await.unwrap();
    let refusal = soon("a refusal", asks()).await.unwrap_err();
    assert!(refusal.is_contended(), "{refusal:?}");
    drop(holder);
}

async fn a_wait_in_line_behind_another_one_ends_at_its_own_deadline<S: Setup>(setup: &S) {
    let _holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let manager = setup.manager();
    let started = Instant::now();
    let (long, short) = (LONG.wait(WAIT * 2), LONG.wait(WAIT));
    let ends = async |policy: &LockPolicy| {
        let refusal = manager.acquire(&KEY, policy).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        started.elapsed()
    };
    let (first, second) = tokio::join!(ends(&long), ends(&short));
    assert!(first >= WAIT * 2 && first <= WAIT * 2 + S::SLACK, "{first:?}");
    assert!(second >= WAIT && second <= WAIT + S::SLACK, "{second:?}");
}

async fn a_wait_gets_the_lock_soon_after_its_release<S: Setup>(setup: &S) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let manager = setup.manager();
    let policy = LONG.wait(Duration::from_secs(4));
    let waits = async { (manager.acquire(&KEY, &policy).await.unwrap(), Instant::now()) };
    let gives_back = async {
        sleep(WAIT).await;
        assert_eq!(holder.release().await, Released::Freed);
        Instant::now()
    };
    let ((guard, got), released) = tokio::join!(waits, gives_back);
    // A poll would come after two thirds of the TTL.
    assert!(got <= released + S::SLACK, "{:?}", got - released);
    guard.lease().check().unwrap();
}

async fn a_wait_gets_the_lock_when_its_holder_is_gone<S: Setup>(setup: &S) {
    let short = LockPolicy::new(Duration::from_millis(800)).on_cancel(lockrt::OnCancel::Hold);
    let acquired = Instant::now();
    drop(setup.manager().acquire(&KEY, &short).await.unwrap());
    let manager = setup.manager();
    let _guard = soon("the lock", manager.acquire(&KEY, &LONG.wait_forever())).await.unwrap();
    let took = acquired.elapsed();
    assert!(took >= short.ttl() && took <= short.ttl() + S::SLACK, "{took:?}");
}

async fn a_woken_loser_waits_on_to_its_own_deadline<S: Setup>(setup: &S) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let managers = [setup.manager(), setup.manager()];
    let started = Instant::now();
    let policy = LONG.wait(WAIT * 3);
    // The winner keeps the lock in its result until both have ended.
    let waits =
        async |manager: &lockrt::LockManager| (manager.acquire(&KEY, &policy).await, started.elapsed());
    let releases = async {
        sleep(WAIT).await;
        assert_eq!(holder.release().await, Released::Freed);
    };
    let (first, second, ()) = tokio::join!(waits(&managers[0]), waits(&managers[1]), releases);
    let ((winner, _), (loser, lost)) = if first.0.is_ok() { (first, second) } else { (second, first) };
    winner.unwrap().lease().check().unwrap();
    assert!(loser.unwrap_err().is_contended());
    assert!(lost >= WAIT * 3 && lost <= WAIT * 3 + S::SLACK, "{lost:?}");
}

async fn a_cancelled_wait_never_acquires_later(setup: &impl Setup) {
    let policy = LONG.wait_forever();
    for polls in 1..4 {
        let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
        let manager = setup.manager();
        // A pause with nothing to wake it is where the wait ends up.
        let wait = timeout(WAIT, polled(polls, manager.acquire(&KEY, &policy), async {}));
        assert!(!matches!(wait.await, Ok(Some(_))));
        assert_eq!(holder.release().await, Released::Freed);
        let watched = Instant::now();
        while watched.elapsed() < WAIT {
            assert_eq!(setup.held().await, 0, "cancelled after {polls} polls");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn a_wait_for_longer_than_the_bound_on_silence_ends_with_the_lock(setup: &impl Setup) {
    let holder = setup.manager().acquire(&KEY, &LONG).await.unwrap();
    let manager = setup.manager();
    let policy = LONG.wait(Duration::from_secs(30));
    let releases = async {
        // A service that nobody asks is not silent.
        sleep(Duration::from_millis(3_500)).await;
        assert_eq!(holder.release().await, Released::Freed);
    };
    let (waited, ()) = tokio::join!(manager.acquire(&KEY, &policy), releases);
    waited.unwrap().lease().check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_asks_a_slow_service_as_patiently_after_a_long_pause() {
    let service = Faulty::start(|_, _| Fate::AnsweredAfter(Duration::from_millis(5)));
    let holder = service.manager().acquire(&KEY, &LONG).await.unwrap();
    let manager = service.manager();
    let policy = LockPolicy::new(Duration::from_secs(10)).wait_forever();
    let refusal = timeout(Duration::from_secs(40), manager.acquire(&KEY, &policy)).await;
    assert!(refusal.is_err(), "it waits for as long as there is a holder: {refusal:?}");
    drop(holder);
}

#[tokio::test(start_paused = true)]
async fn fail_is_exactly_one_answered_attempt() {
    for unanswered in 0..3 {
        let service = Faulty::start(move |call, number| match call {
            Call::Acquire if number <= unanswered => Fate::Unknown,
            Call::Acquire => Fate::Denied,
            _ => Fate::Answered,
        });
        let refusal = service.manager().acquire(&KEY, &LONG).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        assert_eq!(service.calls(Call::Acquire), unanswered + 1);
        let refusal = service.manager().try_acquire(&KEY, &LONG.wait_forever()).await.unwrap_err();
        assert!(refusal.is_contended(), "{refusal:?}");
        assert_eq!(service.calls(Call::Acquire), unanswered + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_holds_nobody_longer_than_the_bound() {
    let (short, long) = (LockPolicy::new(Duration::from_millis(900)), LONG);
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let cases = [
        (short, short.ttl()),
        (long, second * 3),
        (short.wait(WAIT), WAIT),
        (short.wait(day), short.ttl()),
        (long.wait(WAIT), WAIT),
        (long.wait(second * 2), second * 2),
        (long.wait(day), second * 3),
        (short.wait_forever(), short.ttl()),
        (long.wait_forever(), second * 3),
    ];
    for (policy, bound) in cases {
        let service = Faulty::start(|_, _| Fate::Silent);
        let started = Instant::now();
        let refusal = service.manager().acquire(&KEY, &policy).await.unwrap_err();
        let took = started.elapsed();
        assert!(refusal.is_unavailable(), "{policy:?}: {refusal:?}");
        assert!(took <= bound + Faulty::SLACK, "{took:?} for {policy:?}");
        assert!(took >= bound / 2, "gave up after {took:?}: {policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_ever_ends_when_the_service_falls_silent() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let ttl = Duration::from_millis(900);
    let _holder = service.manager().acquire(&KEY, &LONG).await.unwrap();
    let manager = service.manager();
    let policy = LockPolicy::new(ttl).wait_forever();
    let falls_silent = async {
        sleep(Duration::from_secs(20)).await;
        service.follow(|_, _| Fate::Silent);
        Instant::now()
    };
    let (waited, silent) =
        tokio::join!(async { (manager.acquire(&KEY, &policy).await, Instant::now()) }, falls_silent);
    let (refusal, ended) = (waited.0.unwrap_err(), waited.1);
    assert!(refusal.is_unavailable(), "{refusal:?}");
    // The next attempt is due within two thirds of the TTL, a quarter more for jitter.
    assert!(ended - silent <= ttl * 5 / 6 + ttl + Faulty::SLACK, "{:?}", ended - silent);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_cost_the_service_what_one_does() {
    let service = Faulty::start(|_, _| Fate::Answered);
    let holder = service.honest().acquire(&KEY, &LONG).await.unwrap();
    let manager = service.manager();
    let policy = LONG.wait(WAIT);
    let mut waits = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let manager = manager.clone();
        waits.spawn(async move { manager.acquire(&KEY, &policy).await.map(drop) });
    }
    sleep(WAIT / 2).await;
    assert_eq!(service.contenders(), 1, "one waits at the service, the others at home");
    while let Some(ended) = waits.join_next().await {
        assert!(ended.unwrap().unwrap_err().is_contended());
    }
    assert_eq!(service.contenders(), 50, "each has made its one attempt at least");
    until("the waits are over", async || service.held().await == 1).await;
    drop(holder);
}
