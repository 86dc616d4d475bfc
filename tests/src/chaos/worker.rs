//! One worker process: tasks that lock and count until the director has heard enough.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockrt::{LockManager, Postgres, Redis, SetupError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use super::broken::{Break, Broken};
use super::ledger::Ledger;
use super::raw::Raw;
use super::record::{Record, tell};
use super::task::{Bench, last, toil};
use super::witness::Witness;
use crate::Dice;

/// How many tasks each worker has.
const TASKS: u64 = 8;

/// How long the manager may take to give back what is left.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// What a worker is told when it starts.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    /// The lock server, through the worker's proxy.
    pub(super) locks: String,
    pub(super) store: String,
    pub(super) seed: u64,
    pub(super) cancels: bool,
    pub(super) how: Option<Break>,
}

/// What a worker is told while it runs, one word a line. The end of its input ends it at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Drop the runtime with everything in it, and go on with a new one.
    Drop,
    /// Let the tasks come to their end.
    Stop,
    /// Have each task lock something once more.
    Last,
    /// Shut down.
    Close,
}

impl Command {
    const ALL: [Self; 4] = [Self::Drop, Self::Stop, Self::Last, Self::Close];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Stop => "stop",
            Self::Last => "last",
            Self::Close => "close",
        }
    }
}

/// Works as it is told until its input ends.
pub(super) fn work(orders: &Orders) -> ExitCode {
    let commands = commands();
    match labour(orders, commands) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            tell(&Record::Trouble { what });
            ExitCode::FAILURE
        }
    }
}

fn labour(orders: &Orders, mut commands: UnboundedReceiver<Command>) -> Result<(), String> {
    let manager = manager(orders).map_err(|error| error.to_string())?;
    let witness = Witness::start().map_err(|error| error.to_string())?;
    for life in 0.. {
        // Half of the workers poll their tasks on one thread.
        let runtime = runtime(orders.seed.is_multiple_of(2)).map_err(|error| error.to_string())?;
        let dice = Dice::new(orders.seed.wrapping_add(life << 32));
        let guards =
            runtime.block_on(session(orders, manager.clone(), witness.clone(), dice, &mut commands))?;
        let Some(guards) = guards else { break };
        drop(runtime);
        tell(&Record::Dropped { guards });
    }
    let runtime = runtime(true).map_err(|error| error.to_string())?;
    runtime.block_on(async {
        while !matches!(commands.recv().await, Some(Command::Close) | None) {}
        let report = manager.shutdown(SHUTDOWN).await;
        tell(&Record::Closed { clean: report.is_clean() });
    });
    Ok(())
}

fn manager(orders: &Orders) -> Result<LockManager, SetupError> {
    let (builder, url) = (LockManager::builder(), &orders.locks);
    match Raw::at(url) {
        raw @ Raw::Redis(_) => builder.build(Broken::new(Redis::from_url(url)?, raw, orders.how)),
        raw @ Raw::Postgres(_) => builder.build(Broken::new(Postgres::from_url(url)?, raw, orders.how)),
    }
}

/// Runs the tasks of one runtime: until they have stopped, or until the runtime is to be dropped
/// with that many guards in it.
async fn session(
    orders: &Orders,
    manager: LockManager,
    witness: Witness,
    mut dice: Dice,
    commands: &mut UnboundedReceiver<Command>,
) -> Result<Option<u64>, String> {
    let ledger = Ledger::open(&orders.store).await.map_err(|error| error.to_string())?;
    let bench = Arc::new(Bench {
        manager,
        ledger,
        cancels: orders.cancels,
        blind: orders.how == Some(Break::BlindStore),
        stopping: AtomicBool::new(false),
        dropping: AtomicBool::new(false),
        guards: AtomicU64::new(0),
    });
    let watching = tokio::spawn(witness.watch());
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        tasks.push(tokio::spawn(toil(Arc::clone(&bench), Dice::new(dice.roll()), number == 0)));
    }
    if commands.recv().await == Some(Command::Drop) {
        bench.dropping.store(true, Ordering::Relaxed);
        return Ok(Some(bench.guards.load(Ordering::Relaxed)));
    }
    bench.stopping.store(true, Ordering::Relaxed);
    ended(tasks).await?;
    watching.abort();
    tell(&Record::Idle);
    if commands.recv().await == Some(Command::Last) {
        let task = |_| tokio::spawn(last(Arc::clone(&bench), Dice::new(dice.roll())));
        ended((0..TASKS).map(task).collect()).await?;
        tell(&Record::Done);
    }
    Ok(None)
}

async fn ended(tasks: Vec<JoinHandle<()>>) -> Result<(), String> {
    for task in tasks {
        task.await.map_err(|error| format!("a task has failed: {error}"))?;
    }
    Ok(())
}

fn runtime(one_thread: bool) -> std::io::Result<Runtime> {
    if one_thread {
        Builder::new_current_thread().enable_all().build()
    } else {
        Builder::new_multi_thread().worker_threads(2).enable_all().build()
    }
}

/// Reads what the worker is told. Without a director it ends.
fn commands() -> UnboundedReceiver<Command> {
    let (told, commands) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let command = Command::ALL.into_iter().find(|command| command.word() == line);
            if let Some(command) = command {
                let _ = told.send(command);
            }
        }
        std::process::exit(0);
    });
    commands
}
