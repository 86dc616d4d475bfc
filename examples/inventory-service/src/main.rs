//! Reserves stock in PostgreSQL: `examples/inventory-service/run`, or `--help` for what it can be told.

mod arguments;
#[cfg(unix)]
mod chaos;
mod database;
mod error;
mod jobs;
mod pause;
mod reserve;
mod routes;
mod stock;

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lockrt::LockManager;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::arguments::{Arguments, HELP};
use crate::database::Database;
use crate::error::StartError;
use crate::pause::Pause;
use crate::reserve::{Shop, Way};
use crate::routes::Service;

/// How long running bodies may go on after Ctrl-C; then their leases end and their locks are released.
const BODIES_END_WITHIN: Duration = Duration::from_secs(10);
/// How long their answers may take to reach the clients after that.
const ANSWERS_LEAVE_WITHIN: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    match begin().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "inventory-service: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn begin() -> Result<(), StartError> {
    match Arguments::read()? {
        Arguments::Help => Ok(io::stdout().write_all(HELP.as_bytes())?),
        Arguments::Serve { way, stop_before_write } => serve(way, Pause::new(stop_before_write)).await,
        #[cfg(unix)]
        Arguments::Chaos { ways } => tokio::select! {
            shown = chaos::show(&ways) => shown,
            signal = stop_signal() => Ok(signal?),
        },
        #[cfg(not(unix))]
        Arguments::Chaos { .. } => {
            Err("--chaos stops processes by SIGSTOP, which this system has not".into())
        }
    }
}

async fn serve(way: Way, pause: Pause) -> Result<(), StartError> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr).init();

    let missing = "DATABASE_URL is not set: examples/inventory-service/run starts a PostgreSQL for you";
    let url = env::var("DATABASE_URL").map_err(|_| missing)?;
    let database = Database::open(&url).await?;
    let manager = LockManager::from_url(&url).await?;
    lockrt::install(manager.clone())?;

    let instance = env::var("INSTANCE").unwrap_or_else(|_| std::process::id().to_string());
    let port: u16 = env::var("PORT").map_or(Ok(3_000), |port| port.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        format!(
            "port {port} cannot be used ({error}): choose another with PORT=3001, or any free one with PORT=0"
        )
    })?;
    announce(way, &format!("http://{}", listener.local_addr()?))?;

    let service = Arc::new(Service { shop: Shop { database, instance, pause }, way });
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes::router(service));
    let server = server.with_graceful_shutdown(async { drop(stopped.await) });
    let mut server = tokio::spawn(server.into_future());
    tokio::select! {
        ended = &mut server => return Ok(ended??),
        signal = stop_signal() => signal?,
    }
    // From here on nothing new is accepted and nobody new gets a lock; what runs may end.
    drop(stop);
    let report = manager.shutdown(BODIES_END_WITHIN).await;
    writeln!(io::stdout(), "{report}")?;
    let _ = tokio::time::timeout(ANSWERS_LEAVE_WITHIN, server).await;
    Ok(())
}

/// The first lines that a newcomer sees.
fn announce(way: Way, address: &str) -> io::Result<()> {
    let way = way.name();
    writeln!(
        io::stdout(),
        "listens on {address} (reserves: {way})\n\n\
         \x20 curl -i -X PUT {address}/stock/apple --json '{{\"available\": 10}}'\n\
         \x20 curl -i -X PUT {address}/stock/apple/orders/1 --json '{{\"quantity\": 3}}'\n\
         \x20 curl {address}/stock/apple\n\
         \x20 curl {address}/jobs\n\n\
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
