//! An attempt by two plain commands in one round trip, for a lock that is probably free.
//!
//! A script costs the server more than its commands, and the time of the server is known well enough: so
//! the client writes the lock, if nobody has it, and raises the last token to what it takes for the server's
//! time. If the last token is greater by then, or there is none, or the second command fails, the lock is ours
//! without a token, and the ordinary script gives it one. A wrong estimate costs a round trip, and no order.

use redis::{Cmd, Pipeline, RedisError, Value};

use crate::backend::contract::Backend as _;
use crate::backend::redis::Redis;
use crate::backend::redis::connection::{Connection, patience};
use crate::backend::redis::failure;
use crate::backend::redis::names::{Names, value_of};
use crate::backend::redis::scripts::{self, ACQUIRE, Answer};
use crate::backend::redis::server_clock::Estimate;
use crate::claim::Claim;
use crate::clock::Clock;
use crate::error::{BackendError, Outcome};
use crate::token::FencingToken;

/// What came of the two commands.
#[derive(Debug)]
enum Met {
    /// The lock and a token.
    Granted(FencingToken),
    /// The lock without a token, by this attempt or an earlier one.
    Unfenced,
    /// Somebody else.
    Held,
    /// The lock was certainly not written.
    Refused(RedisError),
}

impl Redis {
    /// Tries without the script. None if only the script can tell: where it is known or likely that
    /// somebody else has the lock, where the claim may have a place in the queue, and where the
    /// server is too old (`SET .. NX GET` came with version 7) or has not told its time.
    pub(super) async fn try_natively(
        &self,
        claim: &Claim,
        slot: u16,
    ) -> Result<Option<FencingToken>, BackendError> {
        let now = Clock::system().now();
        if self.contended.is_hot(slot, now)
            || (claim.waits() && self.link.places().get(&claim.owner().wire()).is_some())
        {
            return Ok(None);
        }
        let connection = self.connection().await?;
        let Some(estimate) = connection.server_time(now) else { return Ok(None) };
        let calls = attempt(claim, self.link.names(), slot, estimate)?;
        let mut answers = match connection.ask_together(&calls, patience(claim.ttl())).await {
            Ok(answers) => answers,
            Err(error) => return Err(self.link.failed(&connection, &error)),
        };
        if estimate.stale
            && let Some(time) = answers.pop()
        {
            connection.told_time(&time);
        }
        match met(answers, claim, FencingToken::new(estimate.micros)) {
            Met::Granted(token) => Ok(Some(token)),
            Met::Unfenced => self.fence(claim, &connection).await,
            Met::Held => {
                self.contended.note(slot, now);
                Ok(None)
            }
            Met::Refused(error) if failure::is_syntax_error(&error) => {
                connection.has_no_native_attempt();
                Ok(None)
            }
            Met::Refused(error) => Err(self.link.failed(&connection, &error)),
        }
    }

    /// Has the script give a token to a claim that has its lock already. If it refuses, the lock is given
    /// back first: nobody looks for what a refused attempt has left.
    async fn fence(
        &self,
        claim: &Claim,
        connection: &Connection,
    ) -> Result<Option<FencingToken>, BackendError> {
        let cmd = scripts::acquire(claim, self.link.names())?;
        let answer = self.call_on(connection, &ACQUIRE, &cmd, claim.ttl()).await;
        match answer.and_then(|answer| scripts::acquired(&answer)) {
            Ok(Answer::Granted(token)) => Ok(Some(token)),
            // It has expired meanwhile.
            Ok(Answer::Held { .. }) => Ok(None),
            Err(error) if error.outcome() == Outcome::Unknown => Err(error),
            Err(error) => match self.release(claim).await {
                Ok(_) => Err(error),
                Err(_) => Err(error.unknown_after_all()),
            },
        }
    }
}

fn attempt(
    claim: &Claim,
    names: &Names,
    slot: u16,
    Estimate { micros, stale }: Estimate,
) -> Result<Pipeline, BackendError> {
    let (lock, ttl_ms) = (claim.key().as_str(), scripts::usable_ttl_ms(claim)?);
    let mut set = Cmd::with_capacity(7, lock.len() + scripts::NAMES);
    set.arg("SET").arg(lock).arg(value_of(claim.owner())).arg("NX").arg("PX").arg(ttl_ms).arg("GET");
    let mut raise = Cmd::with_capacity(7, scripts::NAMES);
    raise.arg("ZADD").arg(names.fence_of(slot)).arg("XX").arg("GT").arg("CH").arg(micros).arg("last");
    let mut calls = Pipeline::with_capacity(2 + usize::from(stale));
    calls.add_command(set).add_command(raise);
    if stale {
        calls.cmd("TIME");
    }
    Ok(calls)
}

fn met(answers: Vec<Value>, claim: &Claim, token: FencingToken) -> Met {
    let mut answers = answers.into_iter();
    match (answers.next().unwrap_or_default().extract_error(), answers.next()) {
        (Err(error), _) => Met::Refused(error),
        (Ok(Value::Nil), Some(Value::Int(1))) => Met::Granted(token),
        (Ok(Value::BulkString(value)), _) if value != claim.owner().wire().as_bytes() => Met::Held,
        // Written by this attempt or an earlier one, or perhaps written: the script will tell.
        (Ok(_), _) => Met::Unfenced,
    }
}
