//! Job attributes above and below `#[distributed_lock]`, and workers that run what is locked.
#![deny(warnings)]
#![allow(clippy::unwrap_used, clippy::unused_async)]

use std::sync::{Arc, Mutex};

use lockrt::{LockError, distributed_lock};

/// As much of the job queue as its attribute names: a job is a constant, which knows how to run itself.
#[allow(unreachable_pub)]
mod sqlxmq {
    use std::error::Error;
    use std::pin::Pin;

    type Running = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;

    pub struct CurrentJob(pub u64);

    #[derive(Default)]
    pub struct JobBuilder {
        pub retries: u32,
    }

    impl JobBuilder {
        pub fn set_retries(&mut self, retries: u32) -> &mut Self {
            self.retries = retries;
            self
        }
    }

    /// What a job asks for beside itself, and what became of it.
    #[derive(Default)]
    pub struct JobRegistry {
        pub told: super::Told,
        pub running: super::Mutex<Vec<(&'static str, Running)>>,
    }

    impl JobRegistry {
        pub fn context(&self) -> super::Told {
            self.told.clone()
        }

        pub fn spawn_internal<E: Into<Box<dyn Error + Send + Sync>>>(
            &self,
            name: &'static str,
            job: impl Future<Output = Result<(), E>> + Send + 'static,
        ) {
            let job = Box::pin(async move { job.await.map_err(Into::into) });
            self.running.lock().unwrap().push((name, job));
        }
    }

    pub mod hidden {
        pub struct BuildFn(pub for<'a> fn(&'a mut super::JobBuilder) -> &'a mut super::JobBuilder);
        pub struct RunFn(pub fn(&super::JobRegistry, super::CurrentJob));
    }

    pub struct NamedJob {
        build: hidden::BuildFn,
        run: hidden::RunFn,
    }

    impl NamedJob {
        pub const fn new_internal(_: &'static str, build: hidden::BuildFn, run: hidden::RunFn) -> Self {
            Self { build, run }
        }

        pub fn retries(&self) -> u32 {
            (self.build.0)(&mut JobBuilder::default()).retries
        }

        /// Runs the job to its end.
        pub async fn run(
            &self,
            registry: &JobRegistry,
            job: u64,
        ) -> Result<(), Box<dyn Error + Send + Sync>> {
            (self.run.0)(registry, CurrentJob(job));
            let (_, running) = registry.running.lock().unwrap().pop().unwrap();
            running.await
        }
    }
}

/// What jobs say of themselves: the key and the name of their lock.
type Told = Arc<Mutex<Vec<String>>>;

fn tell(told: &Told, lease: &lockrt::Lease) {
    told.lock().unwrap().push(format!("{} {}", lease.key().as_str(), lease.name()));
}

/// Sends a reminder.
#[sqlxmq_macros::job("reminder", retries = 3)]
#[distributed_lock(key = "above:{job.0}", ttl_ms = 5_000, lease = held, name = "reminders")]
async fn job_above(job: sqlxmq::CurrentJob, told: Told) -> Result<(), LockError> {
    tell(&told, held);
    Ok(())
}

/// Sends a reminder.
#[distributed_lock(key = "below:{job.0}", ttl_ms = 5_000, lease = held)]
#[sqlxmq_macros::job(retries = 4)]
async fn job_below(job: sqlxmq::CurrentJob, told: Told) -> Result<(), LockError> {
    tell(&told, held);
    Ok(())
}

#[sqlxmq_macros::job]
#[distributed_lock(key = "unnamed", ttl_ms = 5_000, lease = held)]
async fn job_unnamed(_job: sqlxmq::CurrentJob, told: Told) -> Result<(), LockError> {
    tell(&told, held);
    Ok(())
}

#[tokio::test]
async fn the_job_attribute_of_sqlxmq_may_stand_on_either_side() {
    let locks = lockrt::testing::memory();
    let registry = sqlxmq::JobRegistry::default();
    job_above.run(&registry, 7).await.unwrap();
    job_below.run(&registry, 8).await.unwrap();
    assert_eq!(*registry.told.lock().unwrap(), ["above:7 reminders", "below:8 macro_jobs::job_below"]);
    assert_eq!((job_above.retries(), job_below.retries()), (3, 4));

    let _held = locks.hold(&lockrt::LockKey::new("above:7").unwrap());
    let refusal = job_above.run(&registry, 7).await.unwrap_err();
    assert!(refusal.downcast_ref::<LockError>().is_some_and(LockError::is_contended), "{refusal}");
    assert_eq!(registry.told.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn under_the_job_attribute_of_sqlxmq_a_lock_has_the_name_that_this_gives_to_the_function() {
    let _locks = lockrt::testing::memory();
    let registry = sqlxmq::JobRegistry::default();
    job_unnamed.run(&registry, 1).await.unwrap();
    assert_eq!(*registry.told.lock().unwrap(), ["unnamed macro_jobs::inner"]);
}

mod builders {
    use super::*;
    use std::pin::Pin;

    type Working = Pin<Box<dyn Future<Output = Result<String, LockError>>>>;

    /// What the other kind of job attribute makes of a function.
    struct Builder(Box<dyn Fn(u64) -> Working>);

    impl Builder {
        fn new<F: Future<Output = Result<String, LockError>> + 'static>(work: fn(u64) -> F) -> Self {
            Self(Box::new(move |id| Box::pin(work(id))))
        }
    }

    // The other way round is one clear error, see `tests/mistakes`.
    #[distributed_lock(key = "built:{id}", ttl_ms = 5_000, lease = held)]
    #[lockrt_job_macro::job]
    async fn below(id: u64) -> Result<String, LockError> {
        Ok(held.key().as_str().to_owned())
    }

    #[tokio::test]
    async fn a_job_attribute_that_takes_the_async_away_stands_below() {
        let locks = lockrt::testing::memory();
        assert_eq!(below().0(7).await.unwrap(), "built:7");
        let _held = locks.hold(&lockrt::LockKey::new("built:7").unwrap());
        assert!(below().0(7).await.unwrap_err().is_contended());
    }
}

mod workers {
    use super::*;
    use apalis_core::backend::TaskSink as _;
    use apalis_core::backend::memory::MemoryStorage;
    use apalis_core::task::data::Data;
    use apalis_core::worker::builder::WorkerBuilder;
    use apalis_core::worker::context::WorkerContext;

    #[distributed_lock(key = "task:{id}", ttl_ms = 5_000, lease = held)]
    async fn task(id: u32, told: Data<Told>, worker: WorkerContext) -> Result<(), LockError> {
        tell(&told, held);
        if told.lock().unwrap().len() == 2 {
            worker.stop().unwrap();
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_locked_function_is_a_task_of_apalis() {
        let _locks = lockrt::testing::memory();
        let told = Told::default();
        let mut tasks = MemoryStorage::new();
        tasks.push(1_u32).await.unwrap();
        tasks.push(2).await.unwrap();
        WorkerBuilder::new("tasks").backend(tasks).data(told.clone()).build(task).run().await.unwrap();
        let mut told = told.lock().unwrap().clone();
        told.sort_unstable();
        assert_eq!(told, ["task:1 macro_jobs::workers::task", "task:2 macro_jobs::workers::task"]);
    }
}
