// sig 38
// kind: fang task; #[async_trait] trait impl with `&dyn` argument; identity is a field of self
// key wished: "task:{self.number}"
// contention wished: Err so that the queue retries
// trap: async_trait again; the argument is `_queueable`
use async_trait::async_trait;
pub struct FangError {
    pub description: String,
}
#[async_trait]
pub trait Queue: Send + Sync {
    async fn push(&self) -> Result<(), FangError>;
}
#[async_trait]
pub trait Runnable: Send + Sync {
    async fn run(&self, client: &dyn Queue) -> Result<(), FangError>;
}
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Task {
    pub number: u16,
}
#[async_trait]
impl Runnable for Task {
    #[lockrt::distributed_lock(key = "task:{self.number}", ttl_ms = 30_000, on_contention = fail)]
    async fn run(&self, _queueable: &dyn Queue) -> Result<(), FangError> {
        if self.number == 0 {
            return Err(FangError { description: format!("number {} is wrong", self.number) });
        }
        _queueable.push().await?;
        Ok(())
    }
}

impl From<lockrt::LockError> for FangError {
    fn from(error: lockrt::LockError) -> Self {
        Self { description: error.to_string() }
    }
}
