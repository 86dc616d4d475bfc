//! The statements, what goes with them, and what their answers mean.

use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Row, SimpleQueryMessage};

use crate::backend::postgres::connection::Parameter;
use crate::backend::postgres::failure::{unexpected_answer, unusable_ttl};
use crate::claim::{Attempt, Claim, Renewed};
use crate::error::{BackendError, SetupError};
use crate::token::FencingToken;

/// A hundred years, as on Redis.
const LONGEST_TTL_MS: i64 = 100 * 365 * 24 * 3_600 * 1_000;

/// How many leases one statement renews.
pub(super) const LOCKS_PER_CALL: usize = 1_000;

/// How many rows [`Statements::sweep`] deletes at most.
pub(super) const ROWS_PER_SWEEP: i64 = 10_000;

/// The statements for the tables in one schema.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) sweep: String,
    pub(super) tables: String,
    /// The schema's name, quoted.
    pub(super) schema: String,
}

impl Statements {
    /// For the tables in `schema`, which every statement names: a search path that differs between two
    /// clients would give them two locks.
    pub(super) fn new(schema: &str) -> Result<Self, SetupError> {
        if schema.is_empty() || schema.contains('\0') {
            return Err(SetupError::InvalidUrl {
                url: format!("schema={schema:?}"),
                reason: "a schema has a name without NUL".to_owned(),
            });
        }
        let schema = format!("\"{}\"", schema.replace('"', "\"\""));
        let fill = |text: &str| text.replace("{schema}", &schema);
        Ok(Self {
            acquire: fill(include_str!("acquire.sql")),
            renew: fill(include_str!("renew.sql")),
            release: fill(include_str!("release.sql")),
            sweep: fill(include_str!("sweep.sql")),
            tables: fill(include_str!("schema.sql")),
            schema,
        })
    }
}

/// The ttl of `claim` as the server counts it.
pub(super) fn usable_ttl_ms(claim: &Claim) -> Result<i64, BackendError> {
    let ttl_ms = i64::try_from(claim.ttl_ms()).map_err(|_| unusable_ttl())?;
    if (1..=LONGEST_TTL_MS).contains(&ttl_ms) { Ok(ttl_ms) } else { Err(unusable_ttl()) }
}

/// What goes with a renewal of these claims.
pub(super) struct Renewals<'a> {
    keys: Vec<&'a str>,
    owners: Vec<String>,
    ttls_ms: Vec<i64>,
}

impl<'a> Renewals<'a> {
    pub(super) fn of(claims: &[(usize, &'a Claim, i64)]) -> Self {
        Self {
            keys: claims.iter().map(|(_, claim, _)| claim.key().as_str()).collect(),
            owners: claims.iter().map(|(_, claim, _)| claim.owner().wire()).collect(),
            ttls_ms: claims.iter().map(|(_, _, ttl_ms)| *ttl_ms).collect(),
        }
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 3] {
        [(&self.keys, Type::TEXT_ARRAY), (&self.owners, Type::TEXT_ARRAY), (&self.ttls_ms, Type::INT8_ARRAY)]
    }
}

/// The answer to an attempt.
pub(super) fn acquired(rows: &[Row]) -> Result<Attempt, BackendError> {
    let [row] = rows else { return Err(unexpected_answer()) };
    let (granted, fence, left_ms) = three(row).map_err(|_| unexpected_answer())?;
    let number = |value: i64| u64::try_from(value).map_err(|_| unexpected_answer());
    if granted {
        return Ok(Attempt::Granted { fencing: Some(FencingToken::new(number(fence)?)) });
    }
    // A lease that ended while it was being looked at.
    Ok(Attempt::Held { free_in: Some(Duration::from_millis(number(left_ms.max(0))?)) })
}

fn three(row: &Row) -> Result<(bool, i64, i64), tokio_postgres::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
}

/// The answers to so many renewals; none where somebody has locked the row.
pub(super) fn renewed(rows: &[Row], claims: usize) -> Vec<Option<Renewed>> {
    let unexpected = || vec![Some(Renewed::Unknown(unexpected_answer())); claims];
    if rows.len() != claims {
        return unexpected();
    }
    let answer = |row: &Row| {
        let held: Option<bool> = row.try_get(0)?;
        Ok(held.map(|held| if held { Renewed::Extended } else { Renewed::Gone }))
    };
    let answers: Result<_, tokio_postgres::Error> = rows.iter().map(answer).collect();
    answers.unwrap_or_else(|_| unexpected())
}

/// How many rows were swept; none if it was somebody else's turn.
pub(super) fn swept(answer: &[SimpleQueryMessage]) -> Option<i64> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_schema_is_quoted() {
        let statements = Statements::new("a\"; DROP TABLE b; --").unwrap();
        assert!(statements.acquire.contains("FROM \"a\"\"; DROP TABLE b; --\".lockrt_locks"));
        for text in [&statements.renew, &statements.release, &statements.sweep, &statements.tables] {
            assert!(text.contains("\"a\"\"; DROP") && !text.contains("{schema}"), "{text}");
        }
        assert!(Statements::new("").is_err() && Statements::new("a\0").is_err());
    }
}
