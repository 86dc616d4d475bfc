//! The scripts, how they are called, and what their answers mean.

use std::time::Duration;

use once_cell::sync::Lazy;
use redis::{Cmd, ToRedisArgs, Value};

use crate::backend::redis::failure;
use crate::backend::redis::names::{Names, offer_to, queue_of, value_of};
use crate::backend::redis::places::Unwanted;
use crate::backend::redis::slots::slot_of;
use crate::claim::{Attempt, Claim, Released, Renewed};
use crate::error::BackendError;
use crate::token::FencingToken;

pub(super) static ACQUIRE: Lazy<Script> = Lazy::new(|| Script::new(include_str!("acquire.lua")));
pub(super) static RENEW: Lazy<Script> = Lazy::new(|| Script::new(include_str!("renew.lua")));
pub(super) static RELEASE: Lazy<Script> = Lazy::new(|| Script::new(include_str!("release.lua")));

/// For how long a waiter is offered a lock before the next one looks: many round trips, and short for one who waits
/// behind a process that was stopped.
const OFFER_MS: u64 = 200;

/// How many locks one call renews; the server does nothing else meanwhile, for 0.12 ms.
pub(super) const LOCKS_PER_CALL: usize = 64;

/// Room for the names and values that stand in a command beside those of the lock; more is made if it must.
pub(super) const NAMES: usize = 160;

/// A hundred years: far above every TTL in use, and far below where the server's clock overflows.
const LONGEST_TTL_MS: u64 = 100 * 365 * 24 * 3_600 * 1_000;

/// A script that the server knows by its digest.
#[derive(Debug)]
pub(super) struct Script(redis::Script, &'static str);

impl Script {
    fn new(source: &'static str) -> Self {
        Self(redis::Script::new(source), source)
    }

    /// Makes the server know the script.
    pub(super) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(self.1);
        cmd
    }

    /// Calls the script; ask `arguments` arguments of `bytes` bytes in all to be added.
    fn call(&self, keys: usize, arguments: usize, bytes: usize) -> Cmd {
        let mut cmd = Cmd::with_capacity(3 + arguments, 64 + bytes);
        cmd.arg("EVALSHA").arg(self.0.get_hash()).arg(keys);
        cmd
    }
}

/// The answer to an attempt.
#[derive(Debug)]
pub(super) enum Answer {
    Granted(FencingToken),
    /// Whether the claim is called from its place, or has to look by itself.
    Held {
        free_in: Option<Duration>,
        called: bool,
    },
}

impl From<Answer> for Attempt {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Granted(token) => Self::Granted { fencing: Some(token) },
            Answer::Held { free_in, .. } => Self::Held { free_in },
        }
    }
}

/// An attempt that takes no place in the queue.
pub(super) fn acquire(claim: &Claim, names: &Names) -> Result<Cmd, BackendError> {
    let (lock, ttl_ms) = (claim.key().as_str(), usable_ttl_ms(claim)?);
    let mut cmd = ACQUIRE.call(2, 4, lock.len() + NAMES);
    cmd.arg(lock).arg(names.fence_of(slot_of(lock))).arg(value_of(claim.owner())).arg(ttl_ms);
    Ok(cmd)
}

/// An attempt that takes a place if the lock is held; `again` if the claim may have it by now.
pub(super) fn line_up(claim: &Claim, names: &Names, again: bool) -> Result<Cmd, BackendError> {
    let (lock, ttl_ms) = (claim.key().as_str(), usable_ttl_ms(claim)?);
    let mut cmd = ACQUIRE.call(3, 7, 2 * (lock.len() + NAMES));
    cmd.arg(lock).arg(names.fence_of(slot_of(lock))).arg(queue_of(lock));
    cmd.arg(value_of(claim.owner())).arg(ttl_ms).arg(place_of(claim, names));
    if again {
        cmd.arg(1);
    }
    Ok(cmd)
}

fn place_of<'a>(claim: &'a Claim, names: &'a Names) -> impl ToRedisArgs + 'a {
    names.place_of(claim.owner(), claim.ttl_ms().clamp(1, OFFER_MS))
}

pub(super) fn acquired(answer: &Value) -> Result<Answer, BackendError> {
    match answer {
        Value::BulkString(token) => {
            let token = std::str::from_utf8(token).ok().and_then(|token| token.parse().ok());
            Ok(Answer::Granted(FencingToken::new(token.ok_or_else(failure::unexpected_answer)?)))
        }
        Value::Array(held) => match held.as_slice() {
            // -1 is a holder without an expiry, as written by hand or by another program.
            [Value::Int(left), Value::Int(called)] => Ok(Answer::Held {
                free_in: u64::try_from(*left).ok().map(Duration::from_millis),
                called: *called == 1,
            }),
            _ => Err(failure::unexpected_answer()),
        },
        _ => Err(failure::unexpected_answer()),
    }
}

pub(super) fn release(claim: &Claim, names: &Names) -> Cmd {
    let place = claim.waits().then(|| place_of(claim, names));
    free(claim.key().as_str(), value_of(claim.owner()), place)
}

/// Hands an offer on that was not taken, and spares the lock if it was.
pub(super) fn decline(unwanted: &Unwanted) -> Cmd {
    free(&unwanted.lock, offer_to(&unwanted.owner), None::<&str>)
}

fn free(lock: &str, value: impl ToRedisArgs, place: Option<impl ToRedisArgs>) -> Cmd {
    let mut cmd = RELEASE.call(2, 4, 2 * (lock.len() + NAMES));
    cmd.arg(lock).arg(queue_of(lock)).arg(value).arg(place);
    cmd
}

pub(super) fn released(answer: &Value) -> Result<Released, BackendError> {
    match answer {
        Value::Int(1) => Ok(Released::Freed),
        Value::Int(0) => Ok(Released::NotHeld),
        _ => Err(failure::unexpected_answer()),
    }
}

/// One call for at most [`LOCKS_PER_CALL`] claims, each with a TTL that [`usable_ttl_ms`] accepts.
pub(super) fn renew(claims: &[&Claim]) -> Cmd {
    let bytes: usize = claims.iter().map(|claim| claim.key().as_str().len() + 160).sum();
    let mut cmd = RENEW.call(claims.len(), claims.len() * 3, bytes);
    for claim in claims {
        cmd.arg(claim.key().as_str());
    }
    for claim in claims {
        cmd.arg(value_of(claim.owner()));
    }
    // An argument more for each lock costs the server a tenth of the renewal, and most have the same.
    let ttl = claims.first().map(|claim| claim.ttl());
    let ttls = if claims.iter().all(|claim| Some(claim.ttl()) == ttl) { 1 } else { claims.len() };
    for claim in &claims[..ttls.min(claims.len())] {
        cmd.arg(claim.ttl_ms());
    }
    cmd
}

/// One answer per claim of a call of `claims` claims.
pub(super) fn renewed(answer: &Value, claims: usize) -> Vec<Renewed> {
    match answer {
        Value::BulkString(answers) if answers.len() == claims => {
            answers.iter().copied().map(renewed_one).collect()
        }
        _ => vec![Renewed::Unknown(failure::unexpected_answer()); claims],
    }
}

fn renewed_one(answer: u8) -> Renewed {
    match answer {
        b'1' => Renewed::Extended,
        b'0' => Renewed::Gone,
        _ => Renewed::Unknown(failure::unexpected_answer()),
    }
}

/// The TTL of `claim`, unless the server would delete the key or overflow.
pub(super) fn usable_ttl_ms(claim: &Claim) -> Result<u64, BackendError> {
    match claim.ttl_ms() {
        ttl_ms @ 1..=LONGEST_TTL_MS => Ok(ttl_ms),
        _ => Err(failure::unusable_ttl()),
    }
}
