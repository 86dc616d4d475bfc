//! Runs one class after the other and says what came of it.

#![allow(clippy::print_stdout, reason = "the answer of a program")]

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::arena::Arena;
use super::checks::{disorder, early, late, lost, overlaps, recovery_ns, repeated};
use super::class::Class;
use super::ledger::Ledger;
use super::nemesis::{heal, strike};
use super::options::Plan;
use super::record::{Cell, now_ns};
use super::row::{RECOVERY_MS, Row, table};
use super::spot::{Spot, TTL};
use crate::Dice;

/// How often a long class says that it is alive.
const PROGRESS: Duration = Duration::from_secs(10);

/// At least so many blows in each class, however short it is.
const BLOWS: u32 = 2;

/// How long a key without a holder may stay.
const EXPIRED: Duration = TTL.saturating_add(Duration::from_secs(1));

/// Runs everything, prints the table, and fails if anything was found.
pub(super) fn direct(plan: &Plan) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system gives a runtime").block_on(run(plan))
}

async fn run(plan: &Plan) -> ExitCode {
    let Plan { classes, faults, seed, how } = plan;
    println!("{} classes of faults, {faults:.1?} each; --seed {seed} repeats the choices", classes.len());
    if let Some(how) = how {
        println!("The workers are broken on purpose: {}.", how.name());
    }
    let mut rows = Vec::new();
    let mut complaints = Vec::new();
    for (number, class) in (0..).zip(classes) {
        let dice = Dice::new(seed.wrapping_add(number));
        let found = match judge(*class, plan, dice).await {
            Ok(row) => {
                println!("{}", row.line());
                let found = row.complaints();
                rows.push(row);
                found
            }
            Err(failure) => vec![format!("{class}: {failure}")],
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
async fn judge(class: Class, plan: &Plan, mut dice: Dice) -> Result<Row, String> {
    let mut arena = Arena::open(class, plan, &mut dice).await?;
    let recorder = arena.recorder.clone();
    let (blows, load) = harass(class, &mut arena, plan.faults, &mut dice).await?;
    heal(&mut arena);
    let healed_ns = now_ns();
    let recovered = || recovery_ns(&recorder.history().grants, Spot::hot(), healed_ns);
    let hopeless = Instant::now() + Duration::from_millis(RECOVERY_MS);
    while recovered().is_none() && Instant::now() < hopeless {
        sleep(Duration::from_millis(20)).await;
    }
    let recovery_ms = recovered().map(|ns| ns / 1_000_000);
    arena.quiesce().await?;
    let left = arena.leaks(EXPIRED).await;
    let ledger = Ledger::open(&arena.store.url()).await.map_err(|error| error.to_string())?;
    let added = recorder.history().added.clone();
    let mut lost_in = [0, 0];
    for (lost_in, cell) in lost_in.iter_mut().zip([Cell::Plain, Cell::Fenced]) {
        let tallies = ledger.tallies(cell, Spot::all(), &added).await.map_err(|error| error.to_string())?;
        *lost_in = lost(tallies);
    }
    let stops = arena.close().await?;
    let history = recorder.history();
    let unclean = history.unclean as u64;
    Ok(Row {
        class,
        load,
        injections: blows + history.cancelled + history.drops_with_guards,
        grants: history.grants.len() as u64,
        overlaps: overlaps(&history.grants),
        lost_plain: lost_in[0],
        lost_fenced: lost_in[1],
        refused: history.refused,
        repeated_tokens: repeated(&history.grants),
        falling_tokens: disorder(&history.grants, class.loses_data()),
        early_waits: early(&history.waits),
        late_waits: late(&history.waits, &stops),
        recovery_ms,
        leaks: left + unclean,
        troubles: history.troubles.clone(),
    })
}

/// Strikes until the time of the class is up: how many faults that were, and the grants per second.
async fn harass(
    class: Class,
    arena: &mut Arena,
    faults: Duration,
    dice: &mut Dice,
) -> Result<(u64, u64), String> {
    let recorder = arena.recorder.clone();
    let grants = || recorder.history().grants.len();
    let (began, before) = (Instant::now(), grants());
    let (mut injections, mut blows, mut told) = (0, 0, began);
    // A class whose fault must show itself has three times as long for that.
    let shown = || !class.must_be_refused() || recorder.history().refused > 0;
    while began.elapsed() < faults || blows < BLOWS || (!shown() && began.elapsed() < faults * 3) {
        injections +=
            strike(class, arena, dice).await.map_err(|error| format!("the nemesis failed: {error}"))?;
        blows += 1;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            println!(
                "{class:<16} {:.0?}: {injections} injections, {} grants",
                began.elapsed(),
                grants() - before
            );
        }
    }
    let load =
        (grants() - before) as u64 * 1_000 / u64::try_from(began.elapsed().as_millis()).unwrap_or(1).max(1);
    Ok((injections, load))
}
