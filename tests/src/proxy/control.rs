//! What is in force, and what that means for one piece of data.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Dice;
use crate::proxy::script::{Script, Step};
use crate::proxy::toxic::{End, Fault, Toxic, Way};

pub(super) type Shared = Arc<Mutex<Control>>;

pub(super) fn locked(control: &Shared) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Control {
    seed: u64,
    /// How many toxics there have been; each has a number of its own.
    numbers: u64,
    accepted: u64,
    fault: Vec<Active>,
    delays: Vec<Active>,
    added: Vec<Active>,
    script: Script,
}

/// A toxic in force.
#[derive(Clone, Debug)]
pub(super) struct Active {
    number: u64,
    toxic: Toxic,
    once: bool,
}

/// What one direction of one connection remembers.
#[derive(Debug)]
pub(super) struct Passage {
    way: Way,
    /// The connection, counted from one.
    connection: u64,
    dice: Dice,
    /// How much has passed since a limit was set, by its number.
    passed: HashMap<u64, u64>,
    /// Whether something was lost, after which nothing arrives.
    broken: bool,
}

/// What happens to one piece of data, and after it.
#[derive(Debug)]
pub(super) struct Verdict {
    /// How many bytes of it pass.
    pub(super) bytes: usize,
    pub(super) delay: Duration,
    /// The size of its parts, and the time between two.
    pub(super) parts: Option<(usize, Duration)>,
    pub(super) then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    End(End),
    /// The client is cut off, and this piece delivered so much later.
    Late(Duration),
}

impl Passage {
    pub(super) fn new(way: Way, connection: u64, seed: u64) -> Self {
        let dice = Dice::new(mixed(seed, connection, way as u64));
        Self { way, connection, dice, passed: HashMap::new(), broken: false }
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }
}

fn mixed(seed: u64, one: u64, other: u64) -> u64 {
    let seed = Dice::new(seed ^ one).roll();
    Dice::new(seed ^ other).roll()
}

impl Control {
    pub(super) fn new(seed: u64) -> Self {
        let (fault, delays, added) = (Vec::new(), Vec::new(), Vec::new());
        Self { seed, numbers: 0, accepted: 0, fault, delays, added, script: Script::new() }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn set(&mut self, fault: Fault) {
        let (toxics, once) = fault.toxics();
        self.fault = toxics.into_iter().map(|toxic| self.active(toxic, once)).collect();
    }

    pub(super) fn delay(&mut self, ms: &Range<u64>) {
        let ways = [Way::Request, Way::Answer];
        self.delays =
            ways.into_iter().map(|way| self.active(Toxic::Latency { way, ms: ms.clone() }, false)).collect();
    }

    pub(super) fn add(&mut self, toxics: impl IntoIterator<Item = Toxic>) {
        for toxic in toxics {
            let active = self.active(toxic, false);
            self.added.push(active);
        }
    }

    pub(super) fn clear(&mut self) {
        (self.fault, self.delays, self.added) = (Vec::new(), Vec::new(), Vec::new());
        self.script = Script::new();
    }

    pub(super) fn play(&mut self, steps: Vec<Step>) {
        let numbers = &mut self.numbers;
        self.script.play(steps, |toxic| {
            *numbers += 1;
            Active { number: *numbers, toxic, once: false }
        });
    }

    fn active(&mut self, toxic: Toxic, once: bool) -> Active {
        self.numbers += 1;
        Active { number: self.numbers, toxic, once }
    }

    /// Counts a new connection; none if it is to be closed at once, else its number.
    pub(super) fn accept(&mut self) -> Option<u64> {
        self.accepted += 1;
        self.script.advance(Instant::now(), false);
        let refuse = self.in_force().any(|active| active.toxic == Toxic::Refuse);
        (!refuse).then_some(self.accepted)
    }

    fn in_force(&self) -> impl Iterator<Item = &Active> {
        let set = self.fault.iter().chain(&self.delays);
        set.chain(&self.added).chain(self.script.toxics())
    }

    /// Whether data that goes this `way` has to wait.
    pub(super) fn stalls(&mut self, way: Way) -> bool {
        self.script.advance(Instant::now(), false);
        self.in_force().any(|active| active.toxic == Toxic::Stall { way })
    }

    /// What becomes of `length` bytes that have come this way.
    pub(super) fn judge(&mut self, passage: &mut Passage, length: usize) -> Verdict {
        self.script.advance(Instant::now(), passage.way == Way::Request);
        let seed = self.seed;
        let bytes = if passage.broken { 0 } else { length };
        let mut verdict = Verdict { bytes, delay: Duration::ZERO, parts: None, then: Then::GoOn };
        let mut over = Vec::new();
        let way = passage.way;
        for active in self.in_force().filter(|active| active.toxic.is_on(way)) {
            let fired = active.act(&mut verdict, passage, seed);
            if fired && active.once {
                over.push(active.number);
            }
        }
        self.fault.retain(|active| !over.contains(&active.number));
        verdict
    }
}

impl Active {
    /// Carries this toxic into `verdict`; whether it has ended the connection.
    fn act(&self, verdict: &mut Verdict, passage: &mut Passage, seed: u64) -> bool {
        match &self.toxic {
            Toxic::Latency { ms, .. } => {
                verdict.delay += Duration::from_millis(passage.dice.within(ms.clone()));
            }
            Toxic::Distance { ms, .. } => {
                let mut dice = Dice::new(mixed(seed, self.number, passage.connection));
                verdict.delay += Duration::from_millis(dice.within(ms.clone()));
            }
            Toxic::Trickle { bytes, every, .. } => verdict.parts = Some((*bytes, *every)),
            Toxic::Lose { .. } => {
                passage.broken = true;
                verdict.bytes = 0;
            }
            Toxic::Limit { bytes, end, .. } => {
                let passed = passage.passed.entry(self.number).or_default();
                let room = bytes.saturating_sub(*passed);
                verdict.bytes = verdict.bytes.min(usize::try_from(room).unwrap_or(usize::MAX));
                *passed += verdict.bytes as u64;
                if *passed >= *bytes {
                    verdict.then = Then::End(*end);
                    return true;
                }
            }
            Toxic::Overtaken { by } => {
                verdict.bytes = 0;
                verdict.then = Then::Late(*by);
                return true;
            }
            Toxic::Stall { .. } | Toxic::Refuse => {}
        }
        false
    }
}
