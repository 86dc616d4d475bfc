//! Acquire and release where nobody else wants the key.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::KEYS;
use crate::command::Cycles;
use crate::contestant::{Contestant, How};
use crate::stats::median;
use crate::{ALLOCATOR, Result};

/// Cycles on one key after the other for so long.
pub(super) async fn for_ms<C: Contestant>(client: &C, ms: u64) -> Result<Cycles> {
    let keys: Vec<C::Key> = (0..KEYS).map(C::key).collect();
    let (began, end) = (Instant::now(), Duration::from_millis(ms));
    let mut samples = Vec::with_capacity(1 << 16);
    for key in keys.iter().cycle() {
        let start = Instant::now();
        let held = client.acquire(key, How::Free).await?;
        client.release(held).await?;
        samples.push(start.elapsed().as_nanos() as f64 / 1e3);
        if began.elapsed() >= end {
            break;
        }
    }
    Ok(Cycles {
        cycles: samples.len() as u64,
        p50_us: median(&samples),
        wall_us: began.elapsed().as_micros() as f64,
        allocations: 0,
    })
}

/// Exactly so many cycles, and what they allocate.
pub(super) async fn count<C: Contestant>(client: &C, cycles: u64) -> Result<Cycles> {
    let keys: Vec<C::Key> = (0..KEYS).map(C::key).collect();
    let before = ALLOCATOR.stats();
    let began = Instant::now();
    for (key, _) in keys.iter().cycle().zip(0..cycles) {
        let held = client.acquire(key, How::Free).await?;
        client.release(held).await?;
    }
    let wall_us = began.elapsed().as_micros() as f64;
    let made = ALLOCATOR.stats() - before;
    let allocations = (made.allocations + made.reallocations) as u64;
    Ok(Cycles { cycles, p50_us: wall_us / cycles as f64, wall_us, allocations })
}

/// Tasks that cycle on a key each.
pub(super) async fn parallel<C: Contestant>(client: &Rc<C>, tasks: usize, ms: u64) -> Result<Cycles> {
    if tasks > KEYS {
        return Err(format!("there are {KEYS} keys, for as many tasks").into());
    }
    let began = Instant::now();
    let end = began + Duration::from_millis(ms);
    let mut running = JoinSet::new();
    for number in 0..tasks {
        let client = Rc::clone(client);
        running.spawn_local(async move {
            let key = C::key(number);
            let mut cycles = 0;
            while Instant::now() < end {
                let held = client.acquire(&key, How::Free).await.map_err(|error| error.to_string())?;
                client.release(held).await.map_err(|error| error.to_string())?;
                cycles += 1;
            }
            Ok::<u64, String>(cycles)
        });
    }
    let mut cycles = 0;
    while let Some(done) = running.join_next().await {
        cycles += done??;
    }
    let wall_us = began.elapsed().as_micros() as f64;
    Ok(Cycles { cycles, p50_us: wall_us * tasks as f64 / cycles as f64, wall_us, allocations: 0 })
}
