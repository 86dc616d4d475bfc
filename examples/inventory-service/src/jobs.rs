//! Who ran what under which token: one row for each run of a job.

use lockrt::FencingToken;
use serde::Serialize;
use tokio_postgres::{Error, GenericClient, Transaction};

use crate::error::ReserveError;

/// One run of one job.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// What is to be done once per run, such as `reserve:apple`.
    pub(crate) job: String,
    /// Which one: an order, a day.
    pub(crate) id: String,
    pub(crate) instance: String,
    /// That of the lease; none under a lock that is part of its transaction.
    pub(crate) token: Option<FencingToken>,
}

impl Run {
    /// Writes that the run begins. One that is not done is taken over: by a greater token at once, since its holder has
    /// lost the lock; where one of the two has no token, which cannot be compared, when it has ended or is likely dead.
    pub(crate) async fn begin(&self, client: &impl GenericClient) -> Result<(), ReserveError> {
        let begun = "INSERT INTO job_executions AS before (job, run, instance, token) VALUES ($1, $2, $3, $4)
            ON CONFLICT (job, run) DO UPDATE SET instance = excluded.instance, token = excluded.token,
              outcome = 'running', started_at = excluded.started_at, ended_at = NULL
            WHERE before.outcome <> 'done' AND coalesce(before.token < excluded.token,
              before.ended_at IS NOT NULL OR before.started_at < clock_timestamp() - interval '1 minute')";
        match client.execute(begun, &[&self.job, &self.id, &self.instance, &self.token]).await? {
            0 => Err(ReserveError::AtWork),
            _ => Ok(()),
        }
    }

    /// Writes that the run is done, together with what it did: both are committed or none.
    pub(crate) async fn done(&self, transaction: &Transaction<'_>) -> Result<(), Error> {
        self.end(transaction, "done").await
    }

    /// Writes that the store has refused what the run wanted to write.
    pub(crate) async fn refused(&self, client: &impl GenericClient) -> Result<(), Error> {
        self.end(client, "refused").await
    }

    async fn end(&self, client: &impl GenericClient, outcome: &str) -> Result<(), Error> {
        let ended = "UPDATE job_executions SET outcome = $4, ended_at = clock_timestamp()
            WHERE job = $1 AND run = $2 AND token IS NOT DISTINCT FROM $3 AND outcome = 'running'";
        client.execute(ended, &[&self.job, &self.id, &self.token, &outcome]).await.map(drop)
    }
}

/// A row, as the world may see it.
#[derive(Debug, Serialize)]
pub(crate) struct Execution {
    job: String,
    run: String,
    instance: String,
    /// As text: a reader in JavaScript rounds great numbers.
    token: Option<String>,
    outcome: String,
    started_at: String,
    ended_at: Option<String>,
}

/// The last hundred runs, of `job` or of all.
pub(crate) async fn last(client: &impl GenericClient, job: Option<&str>) -> Result<Vec<Execution>, Error> {
    let iso = r#"'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'"#;
    let last = format!(
        "SELECT job, run, instance, token::text, outcome, to_char(started_at AT TIME ZONE 'UTC', {iso}),
           to_char(ended_at AT TIME ZONE 'UTC', {iso})
         FROM job_executions WHERE job = coalesce($1, job) ORDER BY started_at DESC LIMIT 100"
    );
    let rows = client.query(&last, &[&job]).await?;
    let executions = rows.iter().map(|row| {
        Ok(Execution {
            job: row.try_get(0)?,
            run: row.try_get(1)?,
            instance: row.try_get(2)?,
            token: row.try_get(3)?,
            outcome: row.try_get(4)?,
            started_at: row.try_get(5)?,
            ended_at: row.try_get(6)?,
        })
    });
    executions.collect()
}
