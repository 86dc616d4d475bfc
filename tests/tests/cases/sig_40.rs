// sig 40
// kind: job runner; #[async_trait]; a third-party attribute above #[instrument]; Box<dyn Error> WITHOUT Send + Sync
// key wished: "customer:{self.config.customer_id}"
// contention wished: reschedule: Ok(JobCompletion::RescheduleIn(5s)), i.e. a custom Ok value
// trap: skip needs a value of the caller's own type
use async_trait::async_trait;
use std::time::Duration;
pub struct CurrentJob;
pub enum JobCompletion {
    Complete,
    RescheduleIn(Duration),
}
#[async_trait]
pub trait JobRunner: Send + Sync {
    async fn run(&self, current_job: CurrentJob) -> Result<JobCompletion, Box<dyn std::error::Error>>;
}
pub struct Config {
    pub customer_id: uuid::Uuid,
}
pub struct Runner {
    config: Config,
}
#[async_trait]
impl JobRunner for Runner {
    #[tracing::instrument(name = "customer_sync.disable", skip_all)]
    #[lockrt::distributed_lock(key = "customer:{self.config.customer_id}", ttl_ms = 30_000, on_contention = skip(|busy| Ok(JobCompletion::RescheduleIn(busy.retry_after().unwrap_or(Duration::from_secs(5))))), release = started)]
    async fn run(&self, _current_job: CurrentJob) -> Result<JobCompletion, Box<dyn std::error::Error>> {
        if self.config.customer_id.is_nil() {
            return Err("nil".into());
        }
        Ok(JobCompletion::Complete)
    }
}
