//! A deterministic simulation of the protocol machines: several clients, a lock service, and a
//! network between them that does its worst, all on virtual time and all from one seed.
//!
//! The machines are the real ones. What is written anew is what stands around them: [`client`]
//! does what the keeper's driver does, [`caller`] what `acquire`, `run` and `guard` do. A failing
//! seed prints the command that shows its whole story.

mod bounds;
mod caller;
mod checks;
mod client;
mod dice;
mod drift;
mod handing;
mod network;
mod plan;
mod queue;
mod server;
mod tally;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use checks::Broken;
use plan::Flaw;
use tally::Tally;
use world::World;

/// How many seeds all tests together run, unless `LOCKRT_SEEDS` says otherwise.
const SEEDS: u64 = 20_000;
/// How many tests share them.
const SHARES: u64 = 4;
/// A seed takes milliseconds.
const ENDLESS: Duration = Duration::from_secs(30);

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
        if share == 0 {
            replay(seed);
        }
        return;
    }
    let seeds = number("LOCKRT_SEEDS").unwrap_or(SEEDS);
    let seeds = (share..seeds).step_by(usize::try_from(SHARES).unwrap());
    let (ended, told) = mpsc::channel();
    // A thread of its own, so that a machine which goes round in circles is told from a slow one.
    let next = seeds.clone();
    thread::spawn(move || next.map(|seed| run(seed, Flaw::None)).try_for_each(|end| ended.send(end)));
    for seed in seeds {
        let end = told.recv_timeout(ENDLESS);
        let how = |how: &str| Err(Broken { rule: "progress", how: how.to_owned() });
        if let Err(Broken { rule, how }) = end.unwrap_or_else(|_| how("a step does not end")) {
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
fn a_seed_tells_the_same_story_every_time() {
    for seed in 0..20 {
        // Owner tokens are numbered through the whole process; nothing depends on them.
        let story = || blank(&tell(seed, Flaw::None).1);
        assert_eq!(story(), story(), "seed {seed}");
    }
}

/// `story` without the numbers of owner tokens.
fn blank(story: &str) -> String {
    let mut parts = story.split("simulated#");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |told, part| told + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn the_faults_bite() {
    let mut tally = Tally::default();
    for seed in 0..300 {
        let mut world = World::new(seed, Flaw::None, false);
        assert!(world.run().is_ok(), "seed {seed}");
        tally.add(&world);
    }
    // Each of these came to pass, and not only once.
    let Tally {
        grants,
        renewals,
        refusals,
        losses,
        silent,
        abandoned,
        stale_writes,
        lost_data,
        offers,
        declined,
    } = tally;
    for (what, times, least) in [
        ("grants", grants, 1_000),
        ("renewals", renewals, 1_000),
        ("refusals", refusals, 1_000),
        ("losses", losses, 300),
        ("calls without an answer", silent, 1_000),
        ("claims left to their ttl", abandoned, 5),
        ("writes of a former owner", stale_writes, 30),
        ("losses of data", lost_data, 30),
        ("offers", offers, 200),
        ("offers to claims that are gone", declined, 5),
    ] {
        assert!(times >= least, "{what}: {times}");
    }
}

/// Checks that a world with `flaw` breaks `rule`, within few seeds.
fn is_caught(flaw: Flaw, rule: &str) {
    let caught = |seed: &u64| run(*seed, flaw).is_err_and(|broken| broken.rule == rule);
    assert!((0..500).find(caught).is_some(), "{flaw:?} does not break rule `{rule}`");
}

#[test]
fn a_server_that_releases_for_anybody_is_caught() {
    is_caught(Flaw::FreeForAnybody, "backed");
}

#[test]
fn a_server_that_releases_nothing_is_caught() {
    is_caught(Flaw::FreeDoesNothing, "leak");
}

#[test]
fn a_server_that_renews_for_anybody_is_caught() {
    is_caught(Flaw::RenewForAnybody, "backed");
}

#[test]
fn a_server_that_renews_nothing_is_caught() {
    is_caught(Flaw::RenewDoesNothing, "backed");
}

#[test]
fn a_server_that_gives_away_what_is_held_is_caught() {
    is_caught(Flaw::AcquireOverwrites, "backed");
}

#[test]
fn a_server_that_forgets_no_lock_is_caught() {
    is_caught(Flaw::NothingExpires, "leak");
}

#[test]
fn a_server_that_keeps_the_places_of_those_who_left_is_caught() {
    is_caught(Flaw::PlacesStay, "queue");
}

#[test]
fn a_server_that_keeps_queues_for_ever_is_caught() {
    is_caught(Flaw::QueuesStay, "queue");
}

#[test]
fn a_server_that_offers_a_lock_for_ever_is_caught() {
    is_caught(Flaw::OffersStay, "leak");
}

#[test]
fn a_server_that_does_not_take_offers_back_is_caught() {
    is_caught(Flaw::OffersAreKept, "leak");
}

#[test]
fn a_fence_that_counts_is_caught_when_data_are_lost() {
    is_caught(Flaw::FenceCounts, "fence");
}

#[test]
fn a_fence_that_is_a_clock_is_caught_when_it_is_set_back() {
    is_caught(Flaw::FenceIsClock, "fence");
}

#[test]
fn a_store_that_ignores_the_fence_takes_the_write_of_a_former_owner() {
    is_caught(Flaw::StoreIgnoresFence, "store");
}

#[test]
fn a_deadline_that_counts_from_the_reply_is_caught() {
    is_caught(Flaw::SentIsWhenAnswered, "backed");
}

#[test]
fn silence_that_is_taken_for_contention_is_caught() {
    is_caught(Flaw::UnknownIsContended, "leak");
}

#[test]
fn silence_that_is_taken_for_a_grant_is_caught() {
    is_caught(Flaw::UnknownIsGranted, "backed");
}

#[test]
fn a_body_that_is_polled_without_a_look_at_the_clock_is_caught() {
    is_caught(Flaw::BodyIgnoresClock, "poll");
}

#[test]
fn a_driver_without_a_timer_is_caught() {
    is_caught(Flaw::TimeStandsStill, "told");
}

#[test]
fn an_acquire_that_is_dropped_without_a_word_is_caught() {
    is_caught(Flaw::DroppedSeatIsForgotten, "leak");
}
