//! Faults that follow one another.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::Dice;
use crate::proxy::control::Active;
use crate::proxy::toxic::Toxic;

/// One part of a sequence of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    lasts: Lasts,
    toxics: Vec<Toxic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    For(Duration),
    Requests(u64),
}

impl Step {
    /// These toxics for so long.
    #[must_use]
    pub fn lasting(time: Duration, toxics: impl IntoIterator<Item = Toxic>) -> Self {
        Self { lasts: Lasts::For(time), toxics: toxics.into_iter().collect() }
    }

    /// These toxics for so many requests of all connections, until the next request comes. What a
    /// client sends at once counts as one.
    #[must_use]
    pub fn requests(number: u64, toxics: impl IntoIterator<Item = Toxic>) -> Self {
        Self { lasts: Lasts::Requests(number), toxics: toxics.into_iter().collect() }
    }

    /// One or two toxics, or none, for 20 to 200 ms.
    pub fn random(dice: &mut Dice) -> Self {
        let time = Duration::from_millis(dice.within(20..200));
        let toxics = (0..dice.within(0..3)).map(|_| Toxic::random(dice)).collect::<Vec<_>>();
        Self::lasting(time, toxics)
    }
}

/// The steps that are left, the first of them in force.
#[derive(Debug)]
pub(super) struct Script {
    steps: VecDeque<(Lasts, Vec<Active>)>,
    began: Instant,
    requests: u64,
}

impl Script {
    pub(super) fn new() -> Self {
        Self { steps: VecDeque::new(), began: Instant::now(), requests: 0 }
    }

    /// Puts these steps in the place of all others, from now on.
    pub(super) fn play(&mut self, steps: Vec<Step>, mut active: impl FnMut(Toxic) -> Active) {
        let steps = steps.into_iter().map(|step| {
            let toxics = step.toxics.into_iter().map(&mut active).collect();
            (step.lasts, toxics)
        });
        *self = Self { steps: steps.collect(), ..Self::new() };
    }

    /// Leaves the steps that are over, `request` being one that has just come.
    pub(super) fn advance(&mut self, now: Instant, request: bool) {
        self.requests += u64::from(request);
        while let Some((lasts, _)) = self.steps.front() {
            self.began = match *lasts {
                Lasts::For(time) if now >= self.began + time => self.began + time,
                Lasts::Requests(number) if self.requests > number => now,
                _ => return,
            };
            self.requests = u64::from(request);
            self.steps.pop_front();
        }
    }

    pub(super) fn toxics(&self) -> &[Active] {
        self.steps.front().map_or(&[], |(_, toxics)| toxics)
    }
}
