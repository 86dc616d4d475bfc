// sig 37
// kind: sqlxmq job; the attribute macro replaces the function by a static; `mut current_job`; &'static str argument
// key wished: "job:{current_job.id()}" or the JSON payload inside: "report:{current_job.json::<Report>()?.id}"
// contention wished: leave the job unfinished so that the queue retries with back-off
// trap: key needs a fallible expression (`?` in the key); Box<dyn Error + Send + Sync + 'static>
use std::error::Error;
pub struct CurrentJob {
    id: uuid::Uuid,
    body: String,
}
impl CurrentJob {
    pub fn id(&self) -> uuid::Uuid {
        self.id
    }
    pub fn parse(&self) -> Result<u64, std::num::ParseIntError> {
        self.body.parse()
    }
    pub async fn complete(&mut self) -> Result<(), std::io::Error> {
        Ok(())
    }
}

#[lockrt::distributed_lock(key = "job:{current_job.id()}", ttl_ms = 30_000, on_contention = fail)]
async fn report_job(
    mut current_job: CurrentJob,
    ctx1: i32,
    ctx2: &'static str,
) -> Result<(), Box<dyn Error + Send + Sync + 'static>> {
    let _n = current_job.parse()?;
    if ctx1 != 42 || ctx2.is_empty() {
        return Ok(());
    }
    current_job.complete().await?;
    Ok(())
}
