//! What each argument of the attribute does, on memory with paused time.
#![deny(warnings)]
#![allow(clippy::unwrap_used, clippy::unused_async)]

use std::rc::Rc;
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Busy, Capabilities, Claim, FenceStrength, LockError, LockKey,
    LockManager, LockPolicy, Memory, Released, Renewed, distributed_lock, set_default, testing,
};
use lockrt_tests::{Call, Fate, Faulty, Setup as _};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Whether nobody holds this key.
async fn is_free(locks: &LockManager, key: &str) -> bool {
    let key = LockKey::new(key).unwrap();
    match locks.try_acquire(&key, &LockPolicy::new(TTL)).await {
        Ok(guard) => guard.release().await == Released::Freed,
        Err(refusal) => {
            assert!(refusal.is_contended(), "{refusal}");
            false
        }
    }
}

mod on_error {
    use super::*;

    const ABSENT: [&str; 2] = ["no", "lock"];

    /// A type that has room for no refusal.
    #[distributed_lock(key = "rooms", ttl_ms = 1_000, on_error = |error| [error.kind(), ABSENT[1]])]
    async fn answers(work: Duration) -> [&'static str; 2] {
        sleep(work).await;
        ["done", ""]
    }

    #[tokio::test(start_paused = true)]
    async fn it_answers_contention_under_fail() {
        let _locks = testing::memory();
        let (first, second) = tokio::join!(answers(ms(10)), answers(ms(10)));
        assert_eq!((first[0], second), ("done", ["contended", "lock"]));
    }

    #[tokio::test(start_paused = true)]
    async fn it_answers_a_lost_lease() {
        let _locks = testing::memory();
        assert_eq!(answers(ms(2_000)).await, ["lost", "lock"]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_answers_an_outage_and_a_missing_manager() {
        assert_eq!(answers(ms(0)).await[0], "not_installed");
        let service = Faulty::start(|_, _| Fate::NotApplied);
        let _locks = set_default(service.manager());
        assert_eq!(answers(ms(0)).await[0], "unavailable");
        assert!(service.calls(Call::Acquire) > 0);
    }

    #[distributed_lock(key = "rooms", ttl_ms = 1_000, on_contention = wait(timeout_ms = 100), on_error = |error| !error.is_contended())]
    async fn waits() -> bool {
        true
    }

    #[tokio::test(start_paused = true)]
    async fn it_answers_contention_after_a_wait() {
        let _locks = testing::memory();
        let began = Instant::now();
        let (first, second) = tokio::join!(answers(ms(500)), waits());
        assert_eq!((first[0], second), ("done", false));
        assert!(began.elapsed() >= ms(500));
    }

    #[distributed_lock(key = "rooms", ttl_ms = 1_000, on_contention = skip(2), on_error = |_| 3)]
    async fn skips(work: Duration) -> u8 {
        sleep(work).await;
        1
    }

    #[tokio::test(start_paused = true)]
    async fn it_leaves_contention_to_skip() {
        let _locks = testing::memory();
        let (first, second) = tokio::join!(skips(ms(10)), skips(ms(10)));
        assert_eq!((first, second), (1, 2));
        assert_eq!(skips(ms(2_000)).await, 3);
    }

    /// With a value for every refusal nothing is wrapped, so that any trait will do.
    #[distributed_lock(key = "rooms", ttl_ms = 1_000, on_error = |error| { let kind = error.kind(); kind.len() })]
    async fn hidden(id: usize) -> impl std::fmt::Display + Copy {
        id
    }

    #[tokio::test(start_paused = true)]
    async fn a_hidden_type_stays_what_it_is() {
        assert_eq!(hidden(1).await.to_string(), "not_installed".len().to_string());
        let _locks = testing::memory();
        assert_eq!(hidden(1).await.to_string(), "1");
    }

    #[distributed_lock(key = "rooms", ttl_ms = 1_000, on_error = |error| panic!("no lock: {error}"))]
    async fn never() -> ! {
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "no lock: the lease of lock")]
    async fn a_function_that_never_returns_may_panic() {
        let _locks = testing::memory();
        never().await;
    }
}

mod on_contention {
    use super::*;

    struct Report {
        seen: String,
        argument: String,
    }

    async fn later(busy: &Busy, argument: String) -> Report {
        sleep(ms(1)).await;
        let seen = format!("{} {} {:?} {:?}", busy.name(), busy.key(), busy.waited(), busy.retry_after());
        Report { seen, argument }
    }

    #[distributed_lock(key = "mail:{to}", ttl_ms = 1_000, on_contention = skip(|busy| Ok(later(&busy, to).await)), name = "mail")]
    async fn skips(to: String) -> Result<Report, LockError> {
        sleep(ms(10)).await;
        Ok(Report { seen: String::new(), argument: to })
    }

    #[tokio::test(start_paused = true)]
    async fn skip_sees_the_holder_may_move_arguments_and_wait() {
        let _locks = testing::memory();
        let (first, second) = tokio::join!(skips("jane".into()), skips("jane".into()));
        assert_eq!(
            (first.unwrap().argument, second.as_ref().unwrap().argument.clone()),
            ("jane".into(), "jane".into())
        );
        let seen = second.unwrap().seen;
        let key = LockKey::new("mail:jane").unwrap();
        assert!(seen.starts_with(&format!("mail {} 0ns Some(", key.digest())), "{seen}");
    }

    #[distributed_lock(key = "busy", ttl_ms = 1_000, on_contention = skip(|busy| Err(LockError::from(busy))))]
    async fn gives_it_back() -> Result<(), LockError> {
        sleep(ms(10)).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn busy_becomes_the_refusal_again() {
        let _locks = testing::memory();
        let (first, second) = tokio::join!(gives_it_back(), gives_it_back());
        first.unwrap();
        assert!(second.unwrap_err().is_contended());
    }
}

mod on_cancel {
    use super::*;

    #[distributed_lock(key = "held", ttl_ms = 1_000, on_cancel = hold)]
    async fn holds(work: Duration) -> Result<(), LockError> {
        assert!(work != Duration::MAX, "as told");
        sleep(work).await;
        Ok(())
    }

    #[distributed_lock(key = "held", ttl_ms = 1_000, on_cancel = release)]
    async fn releases(work: Duration) -> Result<(), LockError> {
        sleep(work).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn hold_keeps_the_key_of_a_dropped_body_to_its_ttl() {
        let locks = testing::memory();
        timeout(ms(100), holds(ms(500))).await.unwrap_err();
        sleep(ms(800)).await;
        assert!(!is_free(&locks, "held").await);
        sleep(ms(200)).await;
        assert!(is_free(&locks, "held").await);
    }

    #[tokio::test(start_paused = true)]
    async fn hold_keeps_the_key_of_a_body_that_panicked() {
        let locks = testing::memory();
        let task = tokio::task::LocalSet::new();
        let panicked = task.run_until(async { tokio::task::spawn_local(holds(Duration::MAX)).await }).await;
        assert!(panicked.unwrap_err().is_panic());
        assert!(!is_free(&locks, "held").await);
    }

    #[tokio::test(start_paused = true)]
    async fn hold_frees_the_key_of_a_body_that_ended() {
        let locks = testing::memory();
        holds(ms(1)).await.unwrap();
        assert!(is_free(&locks, "held").await);
    }

    #[tokio::test(start_paused = true)]
    async fn release_frees_the_key_of_a_dropped_body() {
        let locks = testing::memory();
        timeout(ms(100), releases(ms(500))).await.unwrap_err();
        sleep(ms(10)).await;
        assert!(is_free(&locks, "held").await);
    }
}

mod release {
    use super::*;

    #[distributed_lock(key = "slow", ttl_ms = 1_000, release = started)]
    async fn starts() -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "slow", ttl_ms = 1_000, release = awaited)]
    async fn awaits() -> Result<(), LockError> {
        Ok(())
    }

    /// A service whose releases take a while.
    fn slow() -> Faulty {
        Faulty::start(|call, _| match call {
            Call::Release => Fate::AnsweredAfter(ms(100)),
            _ => Fate::Answered,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn started_waits_for_no_answer_and_awaited_does() {
        let service = slow();
        let _locks = set_default(service.manager());
        let began = Instant::now();
        starts().await.unwrap();
        assert_eq!(began.elapsed(), ms(0));
        sleep(ms(200)).await;
        assert_eq!((service.calls(Call::Release), service.held().await), (1, 0));
        let began = Instant::now();
        awaits().await.unwrap();
        assert!(began.elapsed() >= ms(100), "{:?}", began.elapsed());
    }

    fn send<T: Send>(value: T) -> T {
        value
    }

    #[distributed_lock(key = "rc", ttl_ms = 1_000, release = started)]
    async fn not_send() -> Result<Rc<u8>, LockError> {
        Ok(Rc::new(1))
    }

    #[tokio::test(start_paused = true)]
    async fn started_lets_a_value_that_is_not_send_live_in_a_future_that_is() {
        let _locks = testing::memory();
        assert_eq!(*send(not_send()).await.unwrap(), 1);
    }

    #[distributed_lock(key = "lost", ttl_ms = 100, release = started, on_cancel = hold)]
    async fn too_slow() -> Result<(), LockError> {
        sleep(ms(200)).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn started_tells_a_loss_too() {
        let _locks = testing::memory();
        assert!(too_slow().await.unwrap_err().is_lost());
    }
}

mod min_hold_ms {
    use super::*;

    #[distributed_lock(key = "cron", ttl_ms = 1_000, min_hold_ms = 300, on_contention = skip)]
    async fn tick() -> Option<u8> {
        Some(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_body_keeps_its_key_and_keeps_nobody_waiting() {
        let locks = testing::memory();
        let began = Instant::now();
        assert_eq!(tick().await, Some(1));
        assert!(began.elapsed() < ms(50), "{:?}", began.elapsed());
        sleep(ms(250)).await;
        assert_eq!(tick().await, None);
        assert!(!is_free(&locks, "cron").await);
        sleep(ms(100)).await;
        assert!(is_free(&locks, "cron").await);
    }
}

mod fencing {
    use super::*;

    /// Memory that gives no fencing tokens.
    #[derive(Debug)]
    struct Unfenced(Memory, Capabilities);

    impl Backend for Unfenced {
        fn capabilities(&self) -> &Capabilities {
            &self.1
        }
        async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
            Ok(match self.0.try_acquire(claim).await? {
                Attempt::Granted { .. } => Attempt::Granted { fencing: None },
                other => other,
            })
        }
        async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
            self.0.renew(claims).await
        }
        async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
            self.0.release(claim).await
        }
    }

    #[distributed_lock(key = "orders", ttl_ms = 1_000, fencing = required, lease = held)]
    async fn fenced() -> Result<bool, LockError> {
        Ok(held.fencing().is_some())
    }

    #[distributed_lock(key = "orders", ttl_ms = 1_000)]
    async fn unfenced() -> Result<(), LockError> {
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn required_refuses_a_backend_without_fences() {
        let without = Capabilities::new("unfenced").fences(FenceStrength::None);
        let _locks = set_default(testing::manager(Unfenced(Memory::new(), without)));
        assert!(matches!(fenced().await, Err(LockError::Unsupported { .. })));
        unfenced().await.unwrap();
        let _locks = testing::memory();
        assert!(fenced().await.unwrap());
    }
}

mod key {
    use super::*;

    #[distributed_lock(key = "mail:{to:hash}:{kind}", ttl_ms = 1_000, lease = held)]
    async fn digest(to: &str, kind: u8) -> Result<String, LockError> {
        Ok(held.key().as_str().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn hash_stores_the_digest_of_a_value() {
        let _locks = testing::memory();
        // printf abc | sha256sum
        let expected = "mail:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad:7";
        assert_eq!(digest("abc", 7).await.unwrap(), expected);
        assert_ne!(digest("abd", 7).await.unwrap(), expected);
        assert!(matches!(digest("", 7).await, Err(LockError::InvalidKey { .. })));
        let long = "x".repeat(1_000_000);
        assert_eq!(digest(&long, 7).await.unwrap().len(), expected.len());
    }
}
