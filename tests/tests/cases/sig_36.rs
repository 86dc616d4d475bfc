// sig 36
// kind: apalis job; dependency injection by argument type; first argument may be `_`; boxed error
// key wished: "email:{email.to}"
// contention wished: reschedule (return an error that the queue retries) or drop the duplicate
// trap: BoxDynError = Box<dyn Error + Send + Sync>: the lock error must be Send + Sync + 'static; an e-mail address in a key
use std::ops::Deref;
pub type BoxDynError = Box<dyn std::error::Error + Send + Sync>;
#[derive(Clone)]
pub struct Data<T>(pub T);
impl<T> Deref for Data<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
pub struct Email {
    pub to: String,
    pub subject: String,
}
#[derive(Clone)]
pub struct Mailer;
pub struct WorkerContext;

#[lockrt::distributed_lock(key = "email:{email.to:hash}", ttl_ms = 30_000, on_contention = fail)]
async fn send_email(
    email: Email,
    svc: Data<Mailer>,
    worker: WorkerContext,
    cache: Data<u32>,
) -> Result<(), BoxDynError> {
    let _ = (svc, worker, *cache);
    if !email.to.contains('@') {
        return Err("bad address".into());
    }
    let _n: u32 = email.subject.parse().unwrap_or(0);
    Ok(())
}
// the same with a wildcard job argument and no return type: only a constant key is possible
#[lockrt::distributed_lock(key = "simple-job", ttl_ms = 30_000, on_contention = skip)]
async fn simple_job(_: Email, worker: WorkerContext, attempt: u32) {
    let _ = (worker, attempt);
}
