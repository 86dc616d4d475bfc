//! What breaks things, one blow at a time.

use std::time::Duration;

use redis::RedisResult;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::arena::{Arena, follow};
use super::class::Class;
use super::worker::Command;
use crate::{Dice, Fault, RedisServer, Toxic, Way};

/// One blow of a class, with the pause after it: how many faults it was.
///
/// What the workers do to themselves is counted by what they tell.
pub(super) async fn strike(class: Class, arena: &mut Arena, dice: &mut Dice) -> RedisResult<u64> {
    Ok(match class {
        Class::Baseline | Class::Cancelled => {
            pause(dice, 200..201).await;
            0
        }
        Class::WorkersStopped => stop_workers(arena, dice).await,
        Class::WorkersKilled => kill_worker(arena, dice).await,
        Class::RuntimesDropped => drop_runtimes(arena, dice).await,
        // Lost for good, or late by the time that it lasts.
        Class::CutOff => cut_off(arena, dice, &[Fault::Silence, Fault::Stall]).await,
        Class::OneWay => cut_off(arena, dice, &[Fault::DropReplies, Fault::DropRequests]).await,
        Class::Latency => delay(arena, dice).await,
        Class::Reset => reset(arena, dice).await,
        Class::ServerStopped => stop_server(&arena.locks, dice).await,
        Class::ServerEmptied => empty_server(&mut arena.locks, dice).await,
        Class::ServerBusy => busy(&arena.locks, dice).await?,
        Class::Forgetful => forget(&arena.locks, dice).await?,
        Class::Flushed => flush(&arena.locks, dice).await?,
        Class::FailedOver => fail_over(arena, dice).await?,
    })
}

/// Ends every fault.
pub(super) fn heal(arena: &mut Arena) {
    arena.crew.resume();
    arena.locks.resume();
    for proxy in &arena.proxies {
        proxy.clear();
    }
}

async fn pause(dice: &mut Dice, ms: std::ops::Range<u64>) {
    sleep(Duration::from_millis(dice.within(ms))).await;
}

/// Different places of the crew, at least one and at most so many.
fn some(arena: &Arena, dice: &mut Dice, most: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..arena.crew.len()).collect();
    for place in 0..places.len() {
        let other = dice.within(place as u64..places.len() as u64);
        places.swap(place, usize::try_from(other).unwrap_or(place));
    }
    places.truncate(usize::try_from(dice.within(1..most + 1)).unwrap_or(1));
    places
}

async fn stop_workers(arena: &mut Arena, dice: &mut Dice) -> u64 {
    let places = some(arena, dice, 3);
    for place in &places {
        arena.crew.stop(*place);
    }
    pause(dice, 600..1_500).await;
    arena.crew.resume();
    pause(dice, 200..600).await;
    places.len() as u64
}

async fn kill_worker(arena: &mut Arena, dice: &mut Dice) -> u64 {
    let place = some(arena, dice, 1)[0];
    block_in_place(|| arena.crew.replace(place));
    pause(dice, 100..500).await;
    1
}

/// Counted by the workers, since only they know whether there was a guard to drop.
async fn drop_runtimes(arena: &mut Arena, dice: &mut Dice) -> u64 {
    for place in some(arena, dice, 2) {
        arena.crew.order(place, Command::Drop);
    }
    pause(dice, 150..400).await;
    0
}

/// Cuts some workers off for a while, by one of these faults.
async fn cut_off(arena: &Arena, dice: &mut Dice, faults: &[Fault]) -> u64 {
    let places = some(arena, dice, 4);
    for place in &places {
        arena.proxies[*place].set(one_of(faults, dice));
    }
    pause(dice, 600..2_000).await;
    for place in &places {
        arena.proxies[*place].set(Fault::None);
    }
    pause(dice, 200..600).await;
    places.len() as u64
}

fn one_of(faults: &[Fault], dice: &mut Dice) -> Fault {
    let number = usize::try_from(dice.within(0..faults.len() as u64)).unwrap_or_default();
    faults[number].clone()
}

/// Each connection has a delay of its own, and every piece another one on top, up to 400 ms each way.
async fn delay(arena: &Arena, dice: &mut Dice) -> u64 {
    for proxy in &arena.proxies {
        let ms = 0..dice.within(1..200);
        proxy.clear();
        for way in [Way::Request, Way::Answer] {
            proxy.add([Toxic::Distance { way, ms: ms.clone() }, Toxic::Latency { way, ms: ms.clone() }]);
        }
    }
    pause(dice, 300..800).await;
    arena.proxies.len() as u64
}

async fn reset(arena: &Arena, dice: &mut Dice) -> u64 {
    let places = some(arena, dice, 2);
    for place in &places {
        let deliver_after = Duration::from_millis(dice.within(0..300));
        let after_bytes = dice.within(1..20);
        let faults =
            [Fault::CutAtReply, Fault::ResetInReply { after_bytes }, Fault::CutAtRequest { deliver_after }];
        arena.proxies[*place].set(one_of(&faults, dice));
    }
    pause(dice, 50..200).await;
    places.len() as u64
}

async fn stop_server(locks: &RedisServer, dice: &mut Dice) -> u64 {
    locks.pause();
    pause(dice, 600..2_000).await;
    locks.resume();
    pause(dice, 200..800).await;
    1
}

async fn empty_server(locks: &mut RedisServer, dice: &mut Dice) -> u64 {
    block_in_place(|| locks.restart());
    pause(dice, 300..1_200).await;
    1
}

async fn busy(locks: &RedisServer, dice: &mut Dice) -> RedisResult<u64> {
    let mut raw = locks.raw().await;
    if dice.within(0..2) == 0 {
        let ms = dice.within(300..1_500);
        redis::cmd("CLIENT").arg("PAUSE").arg(ms).arg("WRITE").query_async::<()>(&mut raw).await?;
        sleep(Duration::from_millis(ms)).await;
    } else {
        let ms = dice.within(300..1_200);
        redis::cmd("DEBUG").arg("SLEEP").arg(format!("0.{ms:04}")).query_async::<()>(&mut raw).await?;
    }
    pause(dice, 200..600).await;
    Ok(1)
}

async fn forget(locks: &RedisServer, dice: &mut Dice) -> RedisResult<u64> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("SCRIPT").arg("FLUSH");
    for kind in ["normal", "pubsub"] {
        pipeline.cmd("CLIENT").arg(&["KILL", "TYPE", kind, "SKIPME", "yes"]);
    }
    pipeline.query_async::<()>(&mut locks.raw().await).await?;
    pause(dice, 200..201).await;
    Ok(1)
}

async fn flush(locks: &RedisServer, dice: &mut Dice) -> RedisResult<u64> {
    let mut raw = locks.raw().await;
    if dice.within(0..2) == 0 {
        redis::cmd("FLUSHALL").query_async::<()>(&mut raw).await?;
    } else {
        let fences: Vec<String> = redis::cmd("KEYS").arg("*}:fencing").query_async(&mut raw).await?;
        if !fences.is_empty() {
            redis::cmd("DEL").arg(fences).query_async::<()>(&mut raw).await?;
        }
    }
    pause(dice, 200..800).await;
    Ok(1)
}

/// The replica stops following, the workers go on for a while on the old server, and then find the
/// replica in its place: what was written meanwhile is lost.
async fn fail_over(arena: &mut Arena, dice: &mut Dice) -> RedisResult<u64> {
    let Some(spare) = &mut arena.spare else { return Ok(0) };
    redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async::<()>(&mut spare.raw().await).await?;
    pause(dice, 50..300).await;
    std::mem::swap(&mut arena.locks, spare);
    for proxy in &arena.proxies {
        proxy.lead_to(arena.locks.port());
        proxy.cut();
    }
    pause(dice, 300..1_000).await;
    follow(spare, &arena.locks).await?;
    Ok(1)
}
