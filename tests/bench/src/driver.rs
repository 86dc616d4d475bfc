//! A driver: locks with one library as it is told, line by line.

mod contend;
mod cycle;
mod stock;

use std::io::{BufRead, Write};
use std::rc::Rc;

use serde::Serialize;
use tokio::sync::mpsc;

use crate::Result;
use crate::command::{At, Command, Cycles, cpu_ns, now_ns};
use crate::contestant::async_redis_lock::AsyncRedisLock;
use crate::contestant::lockrt::Lockrt;
use crate::contestant::raw::Raw;
use crate::contestant::redlock::Redlock;
use crate::contestant::rslock::Rslock;
use crate::contestant::{Contestant, How, Name};
use crate::options::Orders;
use stock::Stock;

/// How many keys the uncontended workloads use.
pub(crate) const KEYS: usize = 256;

/// Obeys until its standard input ends.
pub(crate) fn run(orders: &Orders) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        match orders.name {
            Name::Lockrt | Name::LockrtStarted => serve::<Lockrt>(orders).await,
            Name::Raw | Name::Lean => serve::<Raw>(orders).await,
            Name::Rslock => serve::<Rslock>(orders).await,
            Name::AsyncRedisLock => serve::<AsyncRedisLock>(orders).await,
            Name::Redlock => serve::<Redlock>(orders).await,
            other => Err(format!("{} is not written in Rust", other.word()).into()),
        }
    })
}

async fn serve<C: Contestant>(orders: &Orders) -> Result<()> {
    let mut clients = Vec::new();
    for _ in 0..orders.clients {
        clients.push(Rc::new(C::connect(orders).await?));
    }
    let first = Rc::clone(clients.first().ok_or("a driver has at least one client")?);
    let one = C::key(0);
    let mut held = None;
    let mut stock = Stock::<C>::default();
    let mut lines = lines();
    answer(&"ready")?;
    while let Some(line) = lines.recv().await {
        match Command::read(&line).ok_or_else(|| format!("no command: {line}"))? {
            Command::Cycles { ms } => answer(&cycle::for_ms(&*first, ms).await?)?,
            Command::Count { cycles } => answer(&cycle::count(&*first, cycles).await?)?,
            Command::Parallel { tasks, ms } => answer(&cycle::parallel(&first, tasks, ms).await?)?,
            Command::Contend { tasks, section_ms, think_ms, begin_ns, end_ns } => {
                let round = contend::Round { section_ms, think_ms, begin_ns, end_ns };
                answer(&contend::run(&clients, tasks, round).await?)?;
            }
            Command::Acquire => {
                held = Some(first.acquire(&one, How::Wait).await?);
                answer(&At { at_ns: now_ns() })?;
            }
            Command::Release => {
                let given = held.take().ok_or("nothing is held")?;
                let at_ns = now_ns();
                first.release(given).await?;
                answer(&At { at_ns })?;
            }
            Command::Ping => answer(&ping(orders, &*first).await?)?,
            Command::Hold { keys } => answer(&stock.hold(&first, keys).await?)?,
            Command::Park { waiters } => answer(&stock.park(&first, waiters).await?)?,
            Command::Cpu => answer(&At { at_ns: cpu_ns() })?,
        }
    }
    Ok(())
}

/// One round trip of the floor.
async fn ping<C: Contestant>(orders: &Orders, client: &C) -> Result<Cycles> {
    let raw = (client as &dyn std::any::Any).downcast_ref::<Raw>();
    let raw = raw.ok_or_else(|| format!("{} does not ping", orders.name.word()))?;
    let began = now_ns();
    raw.ping().await?;
    let us = (now_ns() - began) as f64 / 1e3;
    Ok(Cycles { cycles: 1, p50_us: us, wall_us: us, allocations: 0 })
}

/// The lines of standard input; reading them must not hold up the runtime.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn answer(value: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}
