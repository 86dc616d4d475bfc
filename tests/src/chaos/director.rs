//! Runs one class after the other and says what came of it.

#![allow(clippy::print_stdout, reason = "the answer of a program")]

use std::process::ExitCode;
use std::time::Duration;

use redis::RedisResult;
use tokio::time::Instant;

use super::arena::Arena;
use super::checks::{disorder, early, late, lost, overlaps, recovery_ns, repeated};
use super::ledger::Ledger;
use super::nemesis::{heal, strike};
use super::options::Plan;
use super::record::{Cell, now_ns};
use super::row::{Row, table};
use super::scene::Scene;
use super::spot::Spot;
use super::visitor::visit;
use crate::Dice;

/// How often a long class says that it is alive.
const PROGRESS: Duration = Duration::from_secs(10);

/// At least so many blows in each class, however short it is.
const BLOWS: u32 = 2;

/// How long a key without a holder may stay. What a fault has left behind ends by itself meanwhile, a ttl
/// after an attempt that arrives late; of what is locked at last nothing does.
const RELEASED: Duration = Duration::from_secs(1);

/// Runs everything, prints the table, and fails if anything was found.
pub(super) fn direct(plan: &Plan) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system gives a runtime").block_on(run(plan))
}

async fn run(plan: &Plan) -> ExitCode {
    let Plan { scenes, faults, seed, how } = plan;
    println!("{} classes of faults, {faults:.1?} each; --seed {seed} repeats the choices", scenes.len());
    if let Some(how) = how {
        println!("The workers are broken on purpose: {}.", how.name());
    }
    let mut rows = Vec::new();
    let mut complaints = Vec::new();
    for (number, scene) in (0..).zip(scenes) {
        let dice = Dice::new(seed.wrapping_add(number));
        let found = match judge(*scene, plan, dice).await {
            Ok(row) => {
                println!("{}", row.line());
                let found = row.complaints();
                rows.push(row);
                found
            }
            Err(failure) => vec![format!("{scene}: {failure}")],
        };
        for complaint in &found {
            println!("FAILED {complaint}");
        }
        complaints.extend(found);
    }
    println!("\n{}\n", table(&rows));
    if complaints.is_empty() {
        println!("Nothing happened that must not happen.");
        return ExitCode::SUCCESS;
    }
    println!("FAILED: {} things happened that must not happen.", complaints.len());
    ExitCode::FAILURE
}

/// Runs one class from the start of its servers to the verdict.
async fn judge(scene: Scene, plan: &Plan, mut dice: Dice) -> Result<Row, String> {
    let mut arena = Arena::open(scene, plan, &mut dice).await?;
    let recorder = arena.recorder.clone();
    let (blows, load) = harass(scene, &mut arena, plan, &mut dice).await?;
    let recovery_ms = recover(&mut arena).await?;
    arena.quiesce().await?;
    let left = arena.locks.left(RELEASED).await?;
    let (queues, leaks): (Vec<_>, Vec<_>) = left.into_iter().partition(|left| left.is_passing_queue);
    let [lost_plain, lost_fenced] = count(&arena).await.map_err(|error| error.to_string())?;
    arena.close().await?;
    let history = recorder.history();
    let overlaps = overlaps(&history.grants);
    let late = late(&history.waits, &history.stalls);
    let latest = late.iter().max_by_key(|(late_ns, _)| *late_ns);
    Ok(Row {
        scene,
        load,
        injections: blows + history.cancelled + history.drops_with_guards,
        grants: history.grants.len() as u64,
        overlaps: overlaps.len() as u64,
        overlap: overlaps.first().map(|(holder, grant)| format!("{holder} and {grant}")),
        lost_plain,
        lost_fenced,
        refused: history.refused,
        repeated_tokens: repeated(&history.grants),
        falling_tokens: disorder(&history.grants, scene.class.loses_locks()),
        early_waits: early(&history.waits),
        late_waits: late.len() as u64,
        latest: latest.map(|(late_ns, wait)| format!("{} ms late, {wait:?}", late_ns / 1_000_000)),
        recovery_ms,
        leaks: (leaks.len() + history.unclean) as u64,
        leak: leaks.into_iter().next().map(|left| left.key),
        queues: queues.len() as u64,
        troubles: history.troubles.clone(),
    })
}

/// Ends all faults, and waits until every hot key has been granted again, to a worker or to somebody
/// who asks for it now: how long that took.
async fn recover(arena: &mut Arena) -> Result<Option<u64>, String> {
    heal(arena).await;
    let healed_ns = now_ns();
    let mut grants = visit(&arena.locks.url_at(arena.locks.port())).await?;
    grants.extend_from_slice(&arena.recorder.history().grants);
    Ok(recovery_ns(&grants, Spot::hot(), healed_ns).map(|ns| ns / 1_000_000))
}

/// How many updates were lost without the fence, and with it.
async fn count(arena: &Arena) -> RedisResult<[u64; 2]> {
    let ledger = Ledger::open(&arena.store.url()).await?;
    let added = arena.recorder.history().added.clone();
    let plain = ledger.tallies(Cell::Plain, Spot::all(), &added).await?;
    let fenced = ledger.tallies(Cell::Fenced, Spot::all(), &added).await?;
    Ok([lost(plain), lost(fenced)])
}

/// Strikes until the time of the class is up: how many faults that were, and the grants per second.
async fn harass(scene: Scene, arena: &mut Arena, plan: &Plan, dice: &mut Dice) -> Result<(u64, u64), String> {
    let faults = plan.faults;
    let recorder = arena.recorder.clone();
    let grants = || recorder.history().grants.len();
    let (began, before) = (Instant::now(), grants());
    let (mut injections, mut blows, mut told) = (0, 0, began);
    // A class whose fault must show itself has much longer for that.
    let shown = || plan.how.is_some() || !scene.class.must_be_refused() || recorder.history().refused > 0;
    while began.elapsed() < faults || blows < BLOWS || (!shown() && began.elapsed() < faults * 10) {
        injections +=
            strike(scene.class, arena, dice).await.map_err(|error| format!("the nemesis failed: {error}"))?;
        blows += 1;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            println!(
                "{scene:<24} {:.0?}: {injections} injections, {} grants",
                began.elapsed(),
                grants() - before
            );
        }
    }
    let load =
        (grants() - before) as u64 * 1_000 / u64::try_from(began.elapsed().as_millis()).unwrap_or(1).max(1);
    Ok((injections, load))
}
