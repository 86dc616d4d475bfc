//! Acquire and release where nobody else wants the key.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::KEYS;
use crate::command::Cycles;
use crate::contestant::{Contestant, How};
use crate::stats::median;
use crate::{ALLOCATOR, Result};

/// So many cycles may fail in a round: a machine that does much else, or valgrind, makes a time-out pass now and then.
const FAILURES: u32 = 20;

/// One cycle; false if it failed, as few may.
async fn cycle<C: Contestant>(client: &C, key: &C::Key, failures: &mut u32) -> Result<bool> {
    let done = match client.acquire(key, How::Free).await {
        Ok(held) => client.release(held).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => Ok(true),
        Err(_) if *failures < FAILURES => {
            *failures += 1;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Cycles on one key after the other for so long.
pub(super) async fn for_ms<C: Contestant>(client: &C, ms: u64) -> Result<Cycles> {
    let keys: Vec<C::Key> = (0..KEYS).map(C::key).collect();
    let (began, end) = (Instant::now(), Duration::from_millis(ms));
    let (mut samples, mut failures) = (Vec::with_capacity(1 << 16), 0);
    for key in keys.iter().cycle() {
        let start = Instant::now();
        if cycle(client, key, &mut failures).await? {
            samples.push(start.elapsed().as_nanos() as f64 / 1e3);
        }
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
    let (mut done, mut failures) = (0, 0);
    for key in keys.iter().cycle() {
        if done == cycles {
            break;
        }
        done += u64::from(cycle(client, key, &mut failures).await?);
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
            let (mut cycles, mut failures) = (0, 0);
            while Instant::now() < end {
                let done = cycle(&*client, &key, &mut failures).await;
                cycles += u64::from(done.map_err(|error| error.to_string())?);
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
