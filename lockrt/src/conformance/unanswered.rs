//! Calls that nobody waited for, or whose answer was lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::asking::{
    LONG, SOON, attempted, extended, freed, granted, granted_within, held, key, released, renewed, rises,
    short, soon,
};
use super::{Fault, Power, Service};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim, Renewed};
use crate::error::{BackendError, Outcome};
use crate::testing::{claim, waiting_claim};
use crate::token::FencingToken;

/// More polls than a call of a backend is likely to take; further ones change nothing.
const POLLS: usize = 12;

/// An attempt that was dropped at any moment, and may be carried out later, can be repeated, is then
/// one grant, and can be cleaned up behind.
pub async fn an_attempt_given_up_at_any_moment_can_be_repeated_and_released(service: &impl Service) {
    let (one, two) = (connected(service).await, connected(service).await);
    for (polls, linger) in moments() {
        let key = key("given-up");
        let (owner, other) = (claim(&key, LONG), claim(&key, LONG));
        given_up(polls, linger, one.try_acquire(&owner)).await;
        let token = granted(&one, &owner).await;
        held(&two, &other).await;
        cleaned_up(&two, &owner, &other, token).await;

        let waiter = waiting_claim(&key, LONG);
        given_up(polls, linger, one.try_acquire(&waiter)).await;
        freed(&two, &other).await;
        cleaned_up(&two, &waiter, &claim(&key, LONG), token).await;
    }
}

/// An attempt that was dropped at any moment, and that nobody comes back to, ends with its TTL.
pub async fn an_attempt_given_up_at_any_moment_ends_with_its_ttl(service: &impl Service) {
    let (one, two) = (connected(service).await, connected(service).await);
    let ttl = short(&one);
    let mut keys = Vec::new();
    for (polls, linger) in moments() {
        keys.push(key("left"));
        given_up(polls, linger, one.try_acquire(&claim(&keys[keys.len() - 1], ttl))).await;
    }
    drop(one);
    let start = Instant::now();
    for key in keys {
        granted_within(ttl.saturating_sub(start.elapsed()), &two, &claim(&key, LONG)).await;
    }
}

/// A renewal that was dropped at any moment has renewed or has not, and is no loss.
pub async fn a_renewal_given_up_at_any_moment_loses_nothing(service: &impl Service) {
    let (one, two) = (connected(service).await, connected(service).await);
    let claims = [key("one"), key("two")].map(|key| claim(&key, LONG));
    for claim in &claims {
        granted(&one, claim).await;
    }
    for (polls, linger) in moments() {
        given_up(polls, linger, one.renew(&[&claims[0], &claims[1]])).await;
        for owner in &claims {
            held(&two, &claim(owner.key(), LONG)).await;
            extended(&one, owner).await;
        }
    }
    for claim in &claims {
        freed(&two, claim).await;
    }
}

/// A release that was dropped at any moment has freed the key or has not, and repeating it does.
pub async fn a_release_given_up_at_any_moment_can_be_repeated(service: &impl Service) {
    let (one, two) = (connected(service).await, connected(service).await);
    for (polls, linger) in moments() {
        let key = key("released");
        let owner = claim(&key, LONG);
        let token = granted(&one, &owner).await;
        given_up(polls, linger, one.release(&owner)).await;
        released(&one, &owner).await;
        rises(token, granted(&two, &claim(&key, LONG)).await);
    }
}

/// An attempt that was carried out and not answered fails as unknown; repeated, it is one grant.
pub async fn an_attempt_whose_reply_was_lost_is_unknown_and_can_be_repeated(service: &impl Power) {
    let (one, two) = (connected(service).await, connected(service).await);
    for again in [&one, &two] {
        let key = key("lost");
        let owner = claim(&key, LONG);
        service.inflict(Fault::ReplyLost).await;
        match bounded(one.try_acquire(&owner)).await {
            Err(error) => is_unknown(&error),
            Ok(attempt) => panic!("an attempt whose reply was lost is answered by {attempt:?}"),
        }
        service.heal().await;
        held(&two, &claim(&key, LONG)).await;
        let token = answered_again(again, &owner).await;
        held(&two, &claim(&key, LONG)).await;
        freed(&two, &owner).await;
        rises(token, granted(&two, &claim(&key, LONG)).await);
    }
}

/// A broken connection leaves unknown what it was to answer, and proves no claim to be gone.
pub async fn renewals_whose_reply_was_lost_are_unknown_and_not_gone(service: &impl Power) {
    let one = connected(service).await;
    let claims = [(); 150].map(|()| claim(&key("batch"), LONG));
    for claim in &claims {
        granted(&one, claim).await;
    }
    service.inflict(Fault::ReplyLost).await;
    let mut unknown = 0;
    for answer in bounded(renewed(&one, &claims.each_ref())).await {
        match answer {
            Renewed::Unknown(error) => {
                is_unknown(&error);
                unknown += 1;
            }
            // Of another call, where the backend makes several.
            Renewed::Extended => {}
            Renewed::Gone => panic!("a renewal whose reply was lost counts as gone"),
        }
    }
    assert!(unknown > 0, "a reply was lost, and every renewal is answered");
    service.heal().await;
    answered_again(&one, &claim(&key("probe"), LONG)).await;
    for answer in renewed(&one, &claims.each_ref()).await {
        assert!(matches!(answer, Renewed::Extended), "{answer:?}");
    }
}

/// A release that was carried out and not answered fails as unknown, and frees nothing when repeated.
pub async fn a_release_whose_reply_was_lost_is_unknown_and_can_be_repeated(service: &impl Power) {
    let (one, two) = (connected(service).await, connected(service).await);
    let (lock, probe) = (key("lost"), key("probe"));
    let (owner, next) = (claim(&lock, LONG), claim(&lock, LONG));
    let first = granted(&one, &owner).await;
    service.inflict(Fault::ReplyLost).await;
    match bounded(one.release(&owner)).await {
        Err(error) => is_unknown(&error),
        Ok(released) => panic!("a release whose reply was lost is answered by {released:?}"),
    }
    service.heal().await;
    rises(first, granted(&two, &next).await);
    answered_again(&one, &claim(&probe, LONG)).await;
    released(&one, &owner).await;
    extended(&two, &next).await;
}

/// Attempts until there is an answer, which must be a grant.
pub(super) async fn answered_again(client: &impl Backend, claim: &Claim) -> Option<FencingToken> {
    let start = Instant::now();
    loop {
        match timeout(Duration::from_millis(500), client.try_acquire(claim)).await {
            Ok(Ok(Attempt::Granted { fencing })) => return fencing,
            Ok(Ok(Attempt::Held { free_in })) => panic!("held for {free_in:?} by nobody"),
            Ok(Err(_)) | Err(_) => {}
        }
        assert!(start.elapsed() < SOON, "a client has not found its service again");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Releases `owner`, whose attempt may still arrive, until `other` gets in.
async fn cleaned_up(client: &impl Backend, owner: &Claim, other: &Claim, last: Option<FencingToken>) {
    let start = Instant::now();
    loop {
        released(client, owner).await;
        if let Attempt::Granted { fencing } = attempted(client, other).await {
            return rises(last, fencing);
        }
        assert!(start.elapsed() < SOON, "a claim cannot be cleaned up");
        sleep(Duration::from_millis(2)).await;
    }
}

fn is_unknown(error: &BackendError) {
    assert_eq!(error.outcome(), Outcome::Unknown, "the call was carried out, and fails with: {error}");
}

async fn bounded<T>(call: impl Future<Output = T>) -> T {
    soon("a call whose connection is broken", call).await
}

/// A client whose calls need no connecting, as far as that can be had.
async fn connected<S: Service>(service: &S) -> S::Client {
    let client = service.client().await;
    granted(&client, &claim(&key("connected"), LONG)).await;
    client
}

/// When calls are given up: after how many polls, and whether what they have sent gets on its way.
fn moments() -> impl Iterator<Item = (usize, Duration)> {
    let lingers = [Duration::ZERO, Duration::from_millis(2)];
    (0..=POLLS).flat_map(move |polls| lingers.map(|linger| (polls, linger)))
}

/// Polls `call` at most `polls` times, then drops it after a while.
async fn given_up(polls: usize, linger: Duration, call: impl Future) {
    let mut call = pin!(call);
    let mut left = polls;
    let ended = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match call.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    if !ended && !linger.is_zero() {
        sleep(linger).await;
    }
}
