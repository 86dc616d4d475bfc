// sig 44
// kind: -> ! with a reference to `impl Trait + Send + Sync` in parentheses
// key wished: "bridge:{consumer.source()}"
// contention wished: wait for ever
// trap: `!` return: the wrapper may not put anything after the body, and can only panic, loop or wait on contention
pub trait Consumer {
    fn source(&self) -> &str;
    fn poll(&self) -> impl std::future::Future<Output = Result<(), String>> + Send;
}

#[lockrt::distributed_lock(key = "bridge:{consumer.source()}", ttl_ms = 15_000, on_contention = wait(forever), renew = auto(max_ms = 86_400_000), on_error = |error| panic!("the bridge has no lock: {error}"))]
async fn run_inner(consumer: &(impl Consumer + Send + Sync)) -> ! {
    loop {
        if let Err(e) = consumer.poll().await {
            tracing::error!(e, "poll");
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
