//! Tasks that take turns on one key.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Result;
use crate::command::{Turns, now_ns};
use crate::contestant::{Contestant, How};

/// One round; its moments are those of the clock that all processes share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// How long each turn lasts.
    pub(super) section_ms: u64,
    /// How long a task does something else between two turns, on average.
    pub(super) think_ms: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

/// Lets so many tasks, spread over the clients, contend for one key.
pub(super) async fn run<C: Contestant>(clients: &[Rc<C>], tasks: usize, round: Round) -> Result<Turns> {
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let client = Rc::clone(&clients[task % clients.len()]);
        running.spawn_local(async move { one(&*client, round).await.map_err(|error| error.to_string()) });
    }
    let mut turns = Turns::default();
    while let Some(done) = running.join_next().await {
        let of_task = done??;
        turns.waits_us.extend(of_task.waits_us);
        turns.served.extend(of_task.served);
        turns.sections_us.extend(of_task.sections_us);
        turns.refused += of_task.refused;
    }
    Ok(turns)
}

async fn one<C: Contestant>(client: &C, round: Round) -> Result<Turns> {
    let key = C::key(0);
    let mut turns = Turns { served: vec![0], ..Turns::default() };
    sleep(Duration::from_nanos(round.begin_ns.saturating_sub(now_ns()))).await;
    loop {
        let asked = now_ns();
        if asked >= round.end_ns {
            return Ok(turns);
        }
        let Ok(held) = client.acquire(&key, How::Wait).await else {
            turns.refused += 1;
            continue;
        };
        let got = now_ns();
        if round.section_ms > 0 {
            sleep(Duration::from_millis(round.section_ms)).await;
        }
        let ended = now_ns();
        client.release(held).await?;
        // The last ones get their turn when the others have stopped.
        if got < round.end_ns {
            turns.waits_us.push((got - asked) as f64 / 1e3);
            turns.sections_us.push((ended - got) as f64 / 1e3);
            turns.served[0] += 1;
        }
        if round.think_ms > 0 {
            // Anything will do for chance: the clock's last digits.
            let part = (now_ns() % 1_009) as f64 / 1_009.0;
            sleep(Duration::from_millis(round.think_ms).mul_f64(2.0 * part)).await;
        }
    }
}
