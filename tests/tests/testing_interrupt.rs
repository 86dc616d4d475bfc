//! `testing::interrupt_everywhere`: finds what a locked body leaves half done, and passes one that
//! leaves nothing.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::time::Duration;

use lockrt::testing::{self, interrupt_everywhere};
use lockrt::{LockError, LockManager, LockPolicy, distributed_lock};
use lockrt_tests::{caught, key};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::sleep;

/// What a test says that fails.
async fn failure<T>(run: impl Future<Output = T>) -> String {
    match caught(run).await {
        Ok(_) => panic!("it passes"),
        Err(panic) => text(&*panic),
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap()
}

#[derive(Default)]
struct Bank {
    from: Cell<i64>,
    to: Cell<i64>,
}

impl Bank {
    fn balance(&self) {
        assert_eq!(self.from.get() + self.to.get(), 0, "money is conserved");
    }

    #[distributed_lock(key = "bank", ttl_ms = 10_000)]
    async fn transfer(&self) -> Result<(), LockError> {
        sleep(Duration::from_secs(1)).await;
        self.from.set(self.from.get() - 1);
        self.to.set(self.to.get() + 1);
        yield_now().await;
        Ok(())
    }

    #[distributed_lock(key = "bank", ttl_ms = 10_000)]
    async fn transfer_in_two_steps(&self) -> Result<(), LockError> {
        self.from.set(self.from.get() - 1);
        sleep(Duration::from_secs(1)).await;
        self.to.set(self.to.get() + 1);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_every_step_is_whole_passes() {
    let bank = Bank::default();
    let outputs = RefCell::new(Vec::new());
    let runs = interrupt_everywhere(
        || bank.transfer(),
        async |output| {
            bank.balance();
            outputs.borrow_mut().push(output);
        },
    );
    let runs = runs.await;
    // Two awaits each of the acquire, the body and the release, at once and when woken.
    assert_eq!(runs.dropped(), 12);
    assert_eq!(runs.lost(), 2, "at each await of the body");
    let outputs = outputs.into_inner();
    assert_eq!(outputs.iter().filter(|output| output.is_none()).count(), runs.dropped());
    let lost = |output: &&Option<Result<(), LockError>>| matches!(output, Some(Err(LockError::Lost { .. })));
    assert_eq!(outputs.iter().filter(lost).count(), runs.lost());
    assert_eq!(
        outputs.iter().filter(|output| matches!(output, Some(Ok(())))).count(),
        4,
        "one run is left alone, and each pass ends with one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_between_two_halves_is_found_and_the_poll_is_named() {
    let bank = Bank::default();
    let run = interrupt_everywhere(|| bank.transfer_in_two_steps(), async |_| bank.balance());
    let failure = failure(run).await;
    assert!(failure.starts_with("dropped at poll 3: the check failed: "), "{failure}");
    assert!(failure.contains("money is conserved"), "{failure}");
}

/// A store that answers requests in the order of their coming, unless nobody waits any more.
async fn store(mut requests: mpsc::Receiver<oneshot::Sender<()>>, written: &Cell<u64>) {
    while let Some(answer) = requests.recv().await {
        yield_now().await;
        if !answer.is_closed() {
            written.set(written.get() + 1);
            let _ = answer.send(());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_counts_on_its_answers_is_found_though_dropping_it_at_once_does_no_harm() {
    let (requests, received) = mpsc::channel(1);
    let (written, noted) = (Cell::new(0), Cell::new(0));
    let locks = testing::memory();
    let body = async || {
        let body = async |_: &lockrt::Lease| {
            let (answer, answered) = oneshot::channel();
            requests.send(answer).await.unwrap();
            answered.await.unwrap();
            noted.set(noted.get() + 1);
        };
        locks.run(&key("note"), &LockPolicy::new(Duration::from_secs(10)), body).await
    };
    let check = async |_| assert_eq!(written.get(), noted.get(), "what is written is noted");
    let failure = failure(async {
        tokio::select! {
            runs = locks.interrupt_everywhere(body, check) => { let _ = runs; }
            () = store(received, &written) => {}
        }
    });
    let failure = failure.await;
    assert!(failure.starts_with("dropped when woken after poll 3: the check failed: "), "{failure}");
}

#[distributed_lock(key = "charge", ttl_ms = 10_000)]
async fn charge(charged: &Cell<bool>) -> Result<(), LockError> {
    yield_now().await;
    charged.set(true);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_ignores_a_lost_lease_is_found_though_dropping_it_does_no_harm() {
    let (charged, shipped) = (Cell::new(false), Cell::new(false));
    let order = async || {
        charged.set(false);
        shipped.set(false);
        let _ = charge(&charged).await;
        shipped.set(true);
    };
    let check = async |_| assert!(charged.get() || !shipped.get(), "nothing is shipped for free");
    let failure = failure(interrupt_everywhere(order, check)).await;
    assert!(failure.starts_with("lease lost at poll 3: the check failed: "), "{failure}");
    assert!(failure.contains("nothing is shipped for free"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_body_or_of_its_drop_is_told_with_the_run() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a drop that panics on purpose");
        }
    }
    let body = async || {
        let charged = charge(&Cell::new(false)).await;
        charged.expect("the lease holds");
    };
    let panic = failure(interrupt_everywhere(body, async |_| {})).await;
    assert!(panic.starts_with("lease lost at poll 3: the future panicked at poll "), "{panic}");
    assert!(panic.contains("the lease holds: Lost"), "{panic}");
    let body = async || {
        let bomb = Bomb;
        let _ = charge(&Cell::new(false)).await;
        std::mem::forget(bomb);
    };
    let panic = failure(interrupt_everywhere(body, async |_| {})).await;
    assert_eq!(panic, "dropped at poll 1: the drop panicked: a drop that panics on purpose");
}

#[tokio::test(start_paused = true)]
async fn a_future_without_end_is_told_so() {
    let run = interrupt_everywhere(pending::<()>, async |_| {});
    let failure_by_time = failure(run).await;
    assert!(failure_by_time.contains("does it wait for something that nobody does?"), "{failure_by_time}");
    let endless = async || {
        let _ = charge(&Cell::new(false)).await;
        let mut left = 1_001;
        while left > 0 {
            left -= 1;
            yield_now().await;
        }
    };
    let locks = testing::memory();
    let failure_by_polls = failure(locks.interrupt_everywhere(endless, async |_| {})).await;
    assert!(failure_by_polls.contains("within 1000 polls"), "{failure_by_polls}");
}

#[tokio::test(start_paused = true)]
async fn a_future_that_takes_no_lock_fails() {
    let failure = failure(interrupt_everywhere(yield_now, async |_| {})).await;
    assert!(failure.contains("took no lock of these"), "{failure}");
}

#[distributed_lock(key = "export", ttl_ms = 600_000, on_cancel = hold, min_hold_ms = 500_000)]
async fn export() -> Result<(), LockError> {
    sleep(Duration::from_secs(300)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_kept_is_free_for_the_check_and_the_next_run() {
    let runs = interrupt_everywhere(export, async |output| {
        assert!(!matches!(output, Some(Err(LockError::Contended { .. }))));
        export().await.unwrap();
    });
    assert!(runs.await.lost() >= 1);
}

#[distributed_lock(key = "inner", ttl_ms = 10_000, on_contention = wait(forever), on_lost = report)]
async fn inner() -> Result<(), LockError> {
    yield_now().await;
    Ok(())
}

#[distributed_lock(key = "outer", ttl_ms = 10_000, renew = auto(max_ms = 60_000))]
async fn outer() -> Result<(), LockError> {
    inner().await?;
    sleep(Duration::from_secs(20)).await;
    inner().await
}

#[tokio::test(start_paused = true)]
async fn nested_locks_are_free_after_each_run() {
    let locks = testing::memory();
    let runs = locks.interrupt_everywhere(outer, async |_| assert_eq!(locks.held(), 0));
    assert!(runs.await.lost() >= 5, "in the first acquire, two inner acquires, two inner bodies, one sleep");
}

struct Shop {
    locks: LockManager,
}

impl Shop {
    /// Asks somebody over a socket while it has the lock.
    #[distributed_lock(key = "shop:{id}", ttl_ms = 60_000, manager = &self.locks)]
    async fn ask(&self, id: u64, echo: std::net::SocketAddr) -> Result<u8, LockError> {
        let mut stream = TcpStream::connect(echo).await.unwrap();
        stream.write_all(&[7]).await.unwrap();
        Ok(stream.read_u8().await.unwrap())
    }
}

async fn echo(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        if let Ok(byte) = stream.read_u8().await {
            let _ = stream.write_all(&[byte]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_with_a_manager_of_its_own_and_real_sockets_is_interrupted_too() {
    let locks = testing::memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(echo(listener));
    let shop = Shop { locks: locks.clone() };
    let runs = locks.interrupt_everywhere(
        || shop.ask(7, address),
        async |output| assert!(!matches!(output, Some(Ok(byte)) if byte != 7)),
    );
    let runs = runs.await;
    assert!(runs.dropped() >= 2 && runs.lost() >= 1, "{runs:?}");
    assert_eq!(locks.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_the_body_returns_is_held_in_the_check_and_taken_after_it() {
    let locks = testing::memory();
    let (key, policy) = (key("kept"), LockPolicy::new(Duration::from_secs(10)));
    let kept = RefCell::new(Vec::new());
    let runs = locks.interrupt_everywhere(
        || locks.acquire(&key, &policy),
        async |output| {
            if let Some(guard) = output {
                let guard = guard.unwrap();
                kept.borrow_mut().push((guard.lease().check().is_ok(), guard));
            }
        },
    );
    assert_eq!(runs.await.dropped(), 4);
    let kept = kept.into_inner();
    assert_eq!(kept.iter().map(|(held, _)| *held).collect::<Vec<_>>(), [true; 4]);
    assert!(kept.iter().all(|(_, guard)| guard.lease().check().is_err()), "the next run found it free");
    assert_eq!(locks.held(), 0);
}
