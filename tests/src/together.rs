//! Cases that wait for the same time, at the same time.

use tokio::task::LocalSet;

/// Runs every case at once and waits for their ends.
///
/// # Panics
///
/// If one of them does.
pub async fn together<C, F>(cases: impl IntoIterator<Item = C>, run: impl Fn(C) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let here = LocalSet::new();
    let running: Vec<_> = cases.into_iter().map(|case| here.spawn_local(run(case))).collect();
    here.await;
    for case in running {
        if let Err(panic) = case.await {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
}
