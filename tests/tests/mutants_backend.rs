//! Backends that are wrong on purpose: the conformance suite must fail each of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "the table of flaws and of the cases that notice them")]

#[path = "mutants_backend/client.rs"]
mod client;
#[path = "mutants_backend/flaw.rs"]
mod flaw;
#[path = "mutants_backend/model.rs"]
mod model;
#[path = "mutants_backend/raw.rs"]
mod raw;
#[path = "mutants_backend/run.rs"]
mod run;
#[path = "mutants_backend/state.rs"]
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use flaw::{Flaw, Kind};
use lockrt::conformance::{Case, Fault};
use model::Model;
use raw::{RawRedis, Shortcut};
use run::{all_cases, ended};

/// What no backend of this crate can get wrong.
const BEYOND_BACKENDS: [&str; 1] = ["a_key_with_nul_is_refused"];

/// Takes longer than all the others together, so it runs on the backends that it is about only.
const LONGEST: &str = "twenty_thousand_keys_leave_nothing_behind";

/// The cases that fail, each with the reason.
fn failures(kind: Kind, flaw: Option<Flaw>, with_longest: bool) -> BTreeMap<&'static str, String> {
    let cases = all_cases::<Model>().into_iter().filter(|case| with_longest || case.name() != LONGEST);
    let failed = cases.filter_map(|case| {
        let name = case.name();
        Some((name, ended(case, true, async move || Model::start(kind, flaw))?))
    });
    failed.collect()
}

#[test]
fn a_backend_without_flaws_passes_every_case() {
    for kind in Kind::ALL {
        let failures = failures(kind, None, true);
        assert!(failures.is_empty(), "{kind:?}: {failures:#?}");
    }
}

#[test]
fn every_flaw_is_noticed_by_the_case_made_for_it_and_every_case_notices_one() {
    let (left, told) = (Mutex::new(Flaw::ALL.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while let Some((flaw, kind, case)) = { left.lock().unwrap().next() } {
                    let failures = failures(*kind, Some(*flaw), *case == LONGEST);
                    told.lock().unwrap().push((*flaw, *kind, *case, failures));
                }
            });
        }
    });
    let (mut faults, mut noticing) = (Vec::new(), BTreeSet::new());
    for (flaw, kind, case, failures) in told.into_inner().unwrap() {
        let why = failures.get(case).map_or("NOT NOTICED", String::as_str);
        eprintln!("{flaw:?} ({kind:?}): {} cases fail, among them {case}: {why}", failures.len());
        if !failures.contains_key(case) {
            faults.push(format!("{flaw:?} passes {case}, and fails {:?}", failures.keys()));
        }
        noticing.extend(failures.into_keys());
    }
    let names: BTreeSet<_> = all_cases::<Model>().iter().map(Case::name).collect();
    for idle in names.difference(&noticing).filter(|name| !BEYOND_BACKENDS.contains(name)) {
        faults.push(format!("no flaw makes {idle} fail, so what is it for?"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// How the case of this name ends on a real server.
fn ended_on_redis(shortcut: Shortcut, name: &str) -> Option<String> {
    let case = all_cases::<RawRedis>().into_iter().find(|case| case.name() == name);
    let case = case.expect("the suite has the case");
    assert!(case.fault().is_none_or(|fault| fault == Fault::Slow), "{name} needs more power");
    ended(case, false, async move || RawRedis::start(shortcut).await)
}

#[test]
fn each_shortcut_on_redis_is_noticed_by_the_case_made_for_it() {
    std::thread::scope(|threads| {
        for (shortcut, case) in Shortcut::ALL {
            threads.spawn(move || {
                assert_eq!(ended_on_redis(Shortcut::None, case), None, "without a shortcut, {case}");
                // A race may go well on a machine that has stalled, but not three times.
                let why = (0..3).find_map(|_| ended_on_redis(shortcut, case));
                eprintln!("{shortcut:?}: {case}: {}", why.as_deref().unwrap_or("NOT NOTICED"));
                assert!(why.is_some(), "{shortcut:?} passes {case}");
            });
        }
    });
}
