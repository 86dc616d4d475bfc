//! What callers give to a fence: a lease, the token of one, or nothing where the lock service has none.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::time::Duration;

use lockrt::fence::{Fence, FenceError};
use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, FencingToken, LockPolicy, Memory, Released, Renewed,
    testing,
};
use lockrt_tests::key;

const POLICY: LockPolicy = LockPolicy::new(Duration::from_secs(10));

/// A lock service that gives no tokens.
#[derive(Debug)]
struct Tokenless(Memory);

impl Backend for Tokenless {
    fn capabilities(&self) -> &Capabilities {
        const { &Capabilities::new("tokenless") }
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        Ok(match self.0.try_acquire(claim).await? {
            Attempt::Granted { .. } => Attempt::Granted { fencing: None },
            held => held,
        })
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        self.0.renew(claims).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        self.0.release(claim).await
    }
}

/// A callee that need not know of leases.
fn write_down(fence: &Fence, token: FencingToken, value: &mut u32) -> Result<(), FenceError> {
    fence.write("value", token, || *value += 1)
}

#[tokio::test]
async fn a_fence_takes_a_lease_its_token_or_what_it_has_for_one() {
    let locks = testing::memory();
    let (fence, mut value) = (Fence::new(), 0);
    let body = async |lease: &lockrt::Lease| {
        fence.register("value", lease)?;
        write_down(&fence, lease.fencing().unwrap(), &mut value)?;
        fence.write("value", lease.fencing(), || value += 1)
    };
    locks.run(&key("value"), &POLICY, body).await.unwrap().unwrap();
    assert_eq!(value, 2);
}

#[tokio::test]
async fn the_lease_of_an_earlier_holder_is_refused_after_the_next_has_registered() {
    let locks = testing::memory();
    let fence = Fence::new();
    let first = locks.acquire(&key("value"), &POLICY).await.unwrap();
    fence.register("value", first.lease()).unwrap();
    let former = first.lease().clone();
    first.release().await;
    let second = locks.acquire(&key("value"), &POLICY).await.unwrap();
    fence.register("value", second.lease()).unwrap();
    let refused = fence.write("value", &former, || panic!("it has run")).unwrap_err();
    assert_eq!((refused.offered(), refused.stored()), (former.fencing(), second.lease().fencing()));
}

#[tokio::test]
async fn a_lease_without_a_token_is_an_error_of_its_own() {
    let locks = testing::manager(Tokenless(Memory::new()));
    let guard = locks.acquire(&key("value"), &POLICY).await.unwrap();
    let refused = Fence::new().write("value", guard.lease(), || panic!("it has run")).unwrap_err();
    assert!(matches!(refused, FenceError::NoToken { .. }), "{refused}");
    assert!(refused.to_string().contains("fencing = required"), "{refused}");
}
