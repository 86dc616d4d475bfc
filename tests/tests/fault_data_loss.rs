//! A server that forgets its locks, its tokens, or both.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lockrt::{LockError, LockKey, LockPolicy, LossReason};
use lockrt_tests::{RedisServer, Setup, Store, soon, together};

const SLACK: Duration = Duration::from_secs(1);
const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(3)).wait_forever();
const RENEWED: LockPolicy = POLICY.renew(Duration::from_secs(600));

static KEY: LazyLock<LockKey> = LazyLock::new(|| LockKey::new("orders:7").unwrap());

#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The server is killed and comes back without its data.
    Restart,
    /// `FLUSHALL`.
    Flush,
    /// The key of the lock is deleted.
    Lock,
    /// Another program writes its own value there.
    Overwritten,
    /// It expires early, as when the server's clock jumps ahead.
    Expired,
}

const LOSSES: [Loss; 5] = [Loss::Restart, Loss::Flush, Loss::Lock, Loss::Overwritten, Loss::Expired];

impl Loss {
    async fn happens(self, server: &mut RedisServer) {
        let command: &[&str] = match self {
            Self::Restart => {
                server.kill();
                server.restart();
                return;
            }
            Self::Flush => &["FLUSHALL"],
            Self::Lock => &["DEL", "lock:orders:7"],
            Self::Overwritten => &["SET", "lock:orders:7", "by hand", "PX", "500"],
            Self::Expired => &["PEXPIRE", "lock:orders:7", "1"],
        };
        let mut raw = server.raw().await;
        redis::cmd(command[0]).arg(&command[1..]).exec_async(&mut raw).await.unwrap();
    }
}

async fn a_renewed_lease_is_lost_by(loss: Loss) {
    let mut server = RedisServer::start();
    let (manager, other) = (server.manager(), server.manager());
    let holder = manager.acquire(&KEY, &RENEWED).await.unwrap();
    let begun = Instant::now();
    loss.happens(&mut server).await;
    let next = async { soon("the lock", other.acquire(&KEY, &RENEWED)).await.unwrap() };
    let (told, next) = tokio::join!(holder.lease().lost(), next);
    assert!(matches!(told, LockError::Lost { reason: LossReason::Gone, .. }), "{loss:?}: {told}");
    // A renewal each third of the TTL, and one more where the first meets the broken connection.
    let bound = POLICY.ttl() / 3 + POLICY.ttl() / 12 + SLACK;
    assert!(begun.elapsed() <= bound, "{loss:?}: {:?}", begun.elapsed());
    assert!(next.lease().fencing() > holder.lease().fencing(), "{loss:?}");
    // Whatever the old owner does now, it does not harm the next.
    drop(holder);
    lockrt_tests::settled(manager, "the old owner").await;
    assert_eq!(server.held().await, 1, "{loss:?}");
    next.lease().check().unwrap();
}

#[tokio::test]
async fn a_renewed_lease_that_the_server_forgot_is_lost_at_its_next_renewal() {
    together(LOSSES, a_renewed_lease_is_lost_by).await;
}

#[tokio::test]
async fn without_renewal_two_hold_until_the_older_deadline_and_the_fence_tells_them_apart() {
    let (mut server, stored) = (RedisServer::start(), RedisServer::start());
    let (manager, other, mut store) = (server.manager(), server.manager(), Store::at(&stored.url()));
    let started = Instant::now();
    let older = manager.acquire(&KEY, &POLICY).await.unwrap();
    Loss::Restart.happens(&mut server).await;
    let newer = soon("the lock", other.acquire(&KEY, &RENEWED)).await.unwrap();
    older.lease().check().unwrap_or_else(|loss| {
        assert!(started.elapsed() >= POLICY.ttl() * 98 / 100, "{loss}");
    });
    let token = |guard: &lockrt::LockGuard| guard.lease().fencing().unwrap().get();
    assert!(store.write(token(&older), "old"));
    assert!(store.write(token(&newer), "new"));
    assert!(!store.write(token(&older), "old"));
    assert_eq!(store.fenced(), "new");
    let loss = older.lease().lost().await;
    assert!(matches!(loss, LockError::Lost { reason: LossReason::Expired, .. }), "{loss}");
    assert!(started.elapsed() <= POLICY.ttl() + SLACK, "{:?}", started.elapsed());
    newer.lease().check().unwrap();
}

#[tokio::test]
async fn tokens_rise_after_the_key_that_holds_the_last_one_was_deleted() {
    let server = RedisServer::start();
    let manager = server.manager();
    let mut raw = server.raw().await;
    let mut last = None;
    for _ in 0..5 {
        let guard = manager.acquire(&KEY, &POLICY).await.unwrap();
        assert!(guard.lease().fencing() > last, "{:?} after {last:?}", guard.lease().fencing());
        last = guard.lease().fencing();
        let fences: Vec<String> = redis::cmd("KEYS").arg("*:fencing").query_async(&mut raw).await.unwrap();
        assert_eq!(fences.len(), 1);
        redis::cmd("DEL").arg(&fences).exec_async(&mut raw).await.unwrap();
        guard.lease().check().unwrap();
        guard.release().await;
    }
}
