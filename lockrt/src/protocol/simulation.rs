//! A deterministic simulation of the protocol machines: several clients, a lock service, and a
//! network between them that does its worst, all on virtual time and all from one seed.
//!
//! The machines are the real ones. What is written anew is what stands around them: [`client`]
//! does what the keeper's driver does, [`caller`] what `acquire`, `run` and `guard` do. A failing
//! seed prints the command that shows its whole story.

mod caller;
mod checks;
mod client;
mod dice;
mod drift;
mod network;
mod plan;
mod server;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use checks::Broken;
use plan::Flaw;
use world::World;

/// How many seeds all tests together run, unless `LOCKRT_SEEDS` says otherwise.
const SEEDS: u64 = 20_000;
/// How many tests share them.
const SHARES: u64 = 4;

/// Runs one seed; a panic of a machine is a broken rule, too.
fn run(seed: u64, flaw: Flaw) -> Result<(), Broken> {
    catch_unwind(AssertUnwindSafe(|| World::new(seed, flaw, false).run())).unwrap_or_else(|panic| {
        let how = panic.downcast_ref::<String>().cloned();
        Err(Broken { rule: "panic", how: how.unwrap_or_else(|| String::from("see above")) })
    })
}

/// Runs one seed and writes down what happens.
fn tell(seed: u64, flaw: Flaw) -> (Result<(), Broken>, String) {
    let mut world = World::new(seed, flaw, true);
    let ended = world.run();
    (ended, world.trace().join("\n"))
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// Every seed of one share.
fn share(share: u64) {
    if let Some(seed) = number("LOCKRT_SEED") {
        // The first share replays it; once is enough.
        return if share == 0 { replay(seed) };
    }
    let seeds = number("LOCKRT_SEEDS").unwrap_or(SEEDS);
    for seed in (share..seeds).step_by(usize::try_from(SHARES).unwrap()) {
        if let Err(Broken { rule, how }) = run(seed, Flaw::None) {
            panic!(
                "rule `{rule}` is broken by seed {seed}: {how}\n\
                 replay: LOCKRT_SEED={seed} cargo test -p lockrt --lib simulation -- --nocapture"
            );
        }
    }
}

fn replay(seed: u64) {
    let (ended, story) = tell(seed, Flaw::None);
    if let Err(Broken { rule, how }) = ended {
        panic!("{story}\nrule `{rule}` is broken by seed {seed}: {how}");
    }
}

#[test]
fn every_rule_holds_for_every_seed_first_share() {
    share(0);
}

#[test]
fn every_rule_holds_for_every_seed_second_share() {
    share(1);
}

#[test]
fn every_rule_holds_for_every_seed_third_share() {
    share(2);
}

#[test]
fn every_rule_holds_for_every_seed_fourth_share() {
    share(3);
}

#[test]
fn zz_survey() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut rules: std::collections::BTreeMap<&str, Vec<(u64, String)>> = Default::default();
    let n = number("LOCKRT_SEEDS").unwrap_or(2000);
    for seed in 0..n {
        if let Err(b) = run(seed, Flaw::None) { rules.entry(b.rule).or_default().push((seed, b.how)); }
    }
    for (rule, list) in rules {
        eprintln!("{rule}: {} e.g. {:?}", list.len(), &list[..list.len().min(4)]);
    }
}

#[test]
fn zz_flaws() {
    std::panic::set_hook(Box::new(|_| {}));
    use Flaw::*;
    for flaw in [FreeForAnybody, FreeDoesNothing, RenewForAnybody, RenewDoesNothing, AcquireOverwrites, FenceCounts, FenceIsClock, NothingExpires, StoreIgnoresFence, SentIsWhenAnswered, UnknownIsContended, UnknownIsGranted, BodyIgnoresClock, TimeStandsStill, DroppedSeatIsForgotten] {
        let mut rules: std::collections::BTreeMap<&str, (u64, u64, String)> = Default::default();
        for seed in 0..2000 {
            if let Err(b) = run(seed, flaw) { let e = rules.entry(b.rule).or_insert((seed, 0, b.how)); e.1 += 1; }
        }
        eprintln!("FLAW {flaw:?}: {rules:?}");
    }
}
