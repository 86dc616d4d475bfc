//! A service with locked routes: `cargo run -p quote-service`, then open the address it prints.
//!
//! Reads `PORT` (3000; 0 takes any free one), `LOCK_URL` (unset: locks in memory, for one process), `INSTANCE` (a name for the answers),
//! `PEERS` (other instances' addresses, by comma, for the page) and `WORK_MS` (how long a recalculation takes, 900).

mod answer;
mod error;
mod history;
mod instance;
mod routes;
mod store;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockrt::LockManager;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::history::History;
use crate::instance::Instance;
use crate::routes::Service;
use crate::store::Store;

/// How long running bodies may go on after Ctrl-C; then their leases end and their locks are released.
const BODIES_END_WITHIN: Duration = Duration::from_secs(10);
/// How long their answers may take to reach the clients after that.
const ANSWERS_LEAVE_WITHIN: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "quote-service: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr).init();

    let manager = LockManager::from_env_or_memory().await?;
    lockrt::install(manager.clone())?;

    let instance = Instance::from_env(manager.backend_name())?;
    let port = instance::port_from_env()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        format!(
            "port {port} cannot be used ({error}): choose another with PORT=3001, or any free one with PORT=0"
        )
    })?;
    announce(&instance, &format!("http://{}", listener.local_addr()?))?;

    let service = Arc::new(Service { instance, store: Store::default(), history: History::default() });
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes::router(service)).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let mut server = tokio::spawn(async move { server.await });

    tokio::select! {
        ended = &mut server => return Ok(ended??),
        signal = stop_signal() => signal?,
    }
    // From here on nothing new is accepted and nobody new gets a lock; what runs may end.
    let _ = stop.send(());
    let report = manager.shutdown(BODIES_END_WITHIN).await;
    writeln!(io::stdout(), "{report}")?;
    if let Ok(ended) = tokio::time::timeout(ANSWERS_LEAVE_WITHIN, server).await {
        ended??;
    } else {
        tracing::warn!("a client did not read its answer in time; its connection was dropped");
    }
    Ok(())
}

/// The first lines that a newcomer sees.
fn announce(instance: &Instance, address: &str) -> io::Result<()> {
    let Instance { name, backend, .. } = instance;
    writeln!(
        io::stdout(),
        "{name} listens on {address} (locks: {backend})\n\n\
         open {address} in a browser, or send these two at once:\n\
         \x20 curl -i -X POST {address}/quotes/acme/42/recalculate &\n\
         \x20 curl -i -X POST {address}/quotes/acme/42/recalculate\n\n\
         Ctrl-C ends it."
    )
}

/// Resolves at Ctrl-C, and on Unix at SIGTERM too.
async fn stop_signal() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
