//! What breaks things, one blow at a time.

use std::time::Duration;

use tokio::task::block_in_place;

use super::arena::Arena;
use super::class::Class;
use super::server::pause;
use super::worker::Command;
use crate::{Dice, Fault, Toxic, Way};

/// One blow of a class, with the pause after it: how many faults it was.
///
/// What the workers do to themselves is counted by what they tell.
pub(super) async fn strike(class: Class, arena: &mut Arena, dice: &mut Dice) -> Result<u64, String> {
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
        _ => arena.locks.strike(class, &arena.proxies, dice).await?,
    })
}

/// Ends every fault.
pub(super) async fn heal(arena: &mut Arena) {
    arena.crew.resume();
    arena.locks.heal().await;
    for proxy in &arena.proxies {
        proxy.clear();
    }
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
