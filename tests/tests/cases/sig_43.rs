// sig 43
// kind: endless loop plus a one-shot inner; returns (); by-value config
// key wished: constant "gc"
// contention wished: skip this round
// trap: annotate the inner one-shot, not the loop; a constant key is right here
pub struct Config {
    pub interval: std::time::Duration,
}

pub async fn run_gc(config: Config, mut shutdown: tokio::sync::watch::Receiver<bool>) {
    loop {
        tokio::select! {
            r = run_gc_once(&config) => { if let Err(e) = r { tracing::error!(%e, "gc"); } }
            _ = shutdown.changed() => break,
        }
        tokio::time::sleep(config.interval).await;
    }
}
#[tracing::instrument(skip_all)]
#[lockrt::distributed_lock(key = "gc", ttl_ms = 300_000, on_contention = skip)]
pub async fn run_gc_once(config: &Config) -> anyhow::Result<()> {
    anyhow::ensure!(!config.interval.is_zero(), "interval");
    Ok(())
}
