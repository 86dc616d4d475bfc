//! Shutdowns in the midst of callers on several runtimes, who come, wait, give up and go.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use lockrt::{LockError, LockManager, LockPolicy, Memory};
use lockrt_tests::{Dice, Yielding, key};
use tokio::runtime::Builder;
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

/// What callers do until the manager refuses them.
async fn comes_and_goes(manager: &LockManager, inside: &[AtomicU64; 3], mut dice: Dice) {
    loop {
        let number = usize::try_from(dice.within(0..3)).unwrap();
        let name = key(&format!("k{number}"));
        let mut policy = LockPolicy::new(TTL);
        if dice.within(0..2) == 0 {
            policy = policy.wait_forever();
        }
        if dice.within(0..2) == 0 {
            policy = policy.renew(TTL * 10);
        }
        let (work, patience) = (dice.within(0..3), dice.within(0..4));
        let body = async |_: &lockrt::Lease| {
            let before = inside[number].fetch_add(1, Ordering::SeqCst);
            let _leaves = Leaves(&inside[number]);
            assert_eq!(before, 0, "two bodies of one key");
            for _ in 0..work {
                tokio::task::yield_now().await;
            }
        };
        let run = manager.run(&name, &policy, body);
        match timeout(Duration::from_micros(200 * patience), run).await {
            Ok(Err(LockError::ShuttingDown)) => return,
            Ok(Err(LockError::Lost { .. } | LockError::Contended { .. }) | Ok(())) | Err(_) => {}
            Ok(Err(other)) => panic!("{other}"),
        }
        tokio::task::yield_now().await;
    }
}

struct Leaves<'a>(&'a AtomicU64);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn storm(seed: u64) {
    let memory = Memory::new();
    let manager = LockManager::builder().build(Yielding(memory.clone())).unwrap();
    let inside: Arc<[AtomicU64; 3]> = Arc::default();
    let begin = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (manager, inside, begin) = (manager.clone(), Arc::clone(&inside), Arc::clone(&begin));
            thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_time().build().unwrap();
                begin.wait();
                runtime.block_on(async {
                    let tasks = (0..3).map(|task| {
                        let dice = Dice::new(seed * 100 + thread * 10 + task);
                        comes_and_goes(&manager, &inside, dice)
                    });
                    let mut tasks: Vec<_> = tasks.map(Box::pin).collect();
                    std::future::poll_fn(|cx| {
                        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
                        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                    })
                    .await;
                });
            })
        })
        .collect();
    begin.wait();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let mut dice = Dice::new(seed);
    let report = runtime.block_on(async {
        tokio::time::sleep(Duration::from_micros(dice.within(0..8_000))).await;
        timeout(Duration::from_secs(10), manager.shutdown(Duration::from_millis(20))).await
    });
    let report = report.unwrap_or_else(|_| panic!("seed {seed}: the shutdown does not end"));
    assert!(report.is_clean(), "seed {seed}: {report}");
    assert_eq!((memory.held(), memory.waiting()), (0, 0), "seed {seed}");
    for thread in threads {
        thread.join().unwrap();
    }
    drop(manager);
}

#[test]
fn a_shutdown_in_the_midst_of_everything_leaves_nothing_and_ends_in_time() {
    for seed in 0..300 {
        storm(seed);
    }
}
