//! What one seed sets in motion: clocks, callers with their policies, faults.

use std::time::Duration;

use crate::policy::Contention;
use crate::protocol::simulation::dice::Dice;
use crate::protocol::simulation::drift::{Drift, MS, Time};
use crate::protocol::simulation::network::{LINES, Weather};

/// When the last fault is over.
pub(super) const HEALED: Time = 4_000 * MS;

/// Something that is wrong on purpose, so that the checks can be seen to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    // Of the server.
    FreeForAnybody,
    FreeDoesNothing,
    RenewForAnybody,
    RenewDoesNothing,
    AcquireOverwrites,
    FenceCounts,
    FenceIsClock,
    NothingExpires,
    PlacesStay,
    QueuesStay,
    OffersStay,
    OffersAreKept,
    // Of the store that is protected by fencing tokens.
    StoreIgnoresFence,
    // Of what drives the machines.
    SentIsWhenAnswered,
    UnknownIsContended,
    UnknownIsGranted,
    BodyIgnoresClock,
    TimeStandsStill,
    DroppedSeatIsForgotten,
}

/// What a caller wants, and when it loses patience.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) client: usize,
    pub(super) key: usize,
    pub(super) start: Time,
    pub(super) ttl: Duration,
    pub(super) contention: Contention,
    pub(super) renew_for: Option<Duration>,
    pub(super) min_hold: Option<Duration>,
    pub(super) hold_on_cancel: bool,
    /// Drop the body when the lease is lost; else let it end.
    pub(super) cancel_on_lost: bool,
    /// Cancel the acquire so long after its start.
    pub(super) patience: Option<Time>,
    pub(super) body: Time,
    /// How often the body wakes by itself.
    pub(super) stride: Time,
    /// Drop the body so long after the grant.
    pub(super) dropped: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Weather(usize, Weather),
    Cut {
        client: usize,
        line: usize,
        until: Time,
    },
    PauseServer {
        until: Time,
    },
    Crash {
        until: Time,
        lose: Lose,
    },
    SetClock {
        by: i64,
    },
    PauseClient {
        client: usize,
        until: Time,
        suspend: bool,
    },
    Kill {
        client: usize,
    },
    Close {
        client: usize,
        within: Duration,
    },
    /// Every waiter is told that its key may be free.
    CryWolf,
    /// Another program takes the key if it is free.
    TakeForeign {
        key: usize,
        until: Time,
    },
    /// Another program deletes the key.
    DeleteForeign {
        key: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Lose {
    Nothing,
    Writes(usize),
    Everything,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clocks: Vec<Drift>,
    pub(super) server: Drift,
    pub(super) offset_margin: Duration,
    /// Whether the server queues those who wait.
    pub(super) queues: bool,
    /// Whether the server says that a key may be free whenever it refuses it.
    pub(super) cries_wolf: bool,
    pub(super) keys: usize,
    pub(super) wishes: Vec<Wish>,
    pub(super) faults: Vec<(Time, Fault)>,
}

impl Plan {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let clients = usize::try_from(dice.between(1, 5)).unwrap();
        let keys = usize::try_from(dice.between(1, 3)).unwrap();
        let clocks = (0..clients).map(|_| drift(dice)).collect();
        let server = Drift { origin: 1_700_000_000_000_000 + dice.between(0, 3_600_000_000), ..drift(dice) };
        let offset_margin = Duration::from_millis(if dice.chance(250) { 15 } else { 0 });
        let count = dice.between(3, 21);
        let wishes = (0..count).map(|_| wish(clients, keys, offset_margin, dice)).collect();
        // Quiet seeds show that nothing but the faults makes the others loud.
        let count = if dice.chance(100) { 0 } else { dice.between(1, 16) };
        let mut faults: Vec<_> = (0..count).map(|_| fault(clients, keys, offset_margin, dice)).collect();
        faults.extend((0..clients).map(|client| climate(client, dice)));
        Self {
            clocks,
            server,
            offset_margin,
            queues: dice.chance(700),
            cries_wolf: dice.chance(100),
            keys,
            wishes,
            faults,
        }
    }
}

fn drift(dice: &mut Dice) -> Drift {
    let ppm = i64::try_from(dice.between(0, 6_000)).unwrap() - 3_000;
    Drift { origin: dice.between(10_000_000, 900_000_000), ppm }
}

fn ms(low: u64, high: u64, dice: &mut Dice) -> Duration {
    Duration::from_millis(dice.between(low, high))
}

fn wish(clients: usize, keys: usize, offset_margin: Duration, dice: &mut Dice) -> Wish {
    let ttl = dice.pick(&[60, 90, 150, 300, 600, 900, 1_500, 5_000]);
    let ttl = Duration::from_millis(dice.between(ttl, ttl + 30)).max(offset_margin * 4);
    let ttl_us = u64::try_from(ttl.as_micros()).unwrap();
    let contention = match dice.between(0, 4) {
        0 => Contention::Fail,
        1 => Contention::WaitForever,
        _ => Contention::Wait(ms(1, 2_500, dice)),
    };
    let renew_for = dice.chance(600).then(|| ttl + ms(0, 4_000, dice));
    let longest = if renew_for.is_some() { ttl_us * 8 } else { ttl_us * 3 / 2 };
    let body = dice.between(0, longest.min(4_000 * MS));
    Wish {
        client: dice.index(clients),
        key: dice.index(keys),
        start: dice.between(0, HEALED),
        ttl,
        contention,
        renew_for,
        min_hold: dice
            .chance(200)
            .then(|| ttl.mul_f64(0.01 * f64::from(u8::try_from(dice.between(1, 100)).unwrap()))),
        hold_on_cancel: dice.chance(200),
        cancel_on_lost: dice.chance(900),
        patience: dice.chance(300).then(|| impatience(dice)),
        body,
        stride: if dice.chance(500) { 10_000 * MS } else { dice.between(MS, 40 * MS) },
        dropped: dice.chance(200).then(|| dice.between(0, body + 1)),
    }
}

/// Often within the first exchange of messages, else anywhere.
fn impatience(dice: &mut Dice) -> Time {
    if dice.chance(500) { dice.between(0, 4 * MS) } else { dice.between(0, 1_500 * MS) }
}

fn fault(clients: usize, keys: usize, offset_margin: Duration, dice: &mut Dice) -> (Time, Fault) {
    let at = dice.between(0, HEALED - MS);
    let client = dice.index(clients);
    let longest = dice.pick(&[20, 200, 2_500, 3_900]) * MS;
    let until = (at + dice.between(MS, longest)).min(HEALED);
    let key = dice.index(keys);
    let fault = match dice.between(0, 18) {
        0..=3 => Fault::Weather(client, weather(until, dice)),
        4..=6 => Fault::Cut { client, line: dice.index(LINES), until: at + dice.between(0, 20 * MS) },
        7 => Fault::PauseServer { until },
        8 => Fault::Crash { until, lose: lose(dice) },
        9 => Fault::SetClock { by: clock_step(offset_margin, dice) },
        10..=11 => Fault::PauseClient { client, until, suspend: false },
        12 => Fault::PauseClient { client, until, suspend: true },
        13 if dice.chance(300) => Fault::Kill { client },
        13 | 14 => Fault::Close { client, within: ms(0, 700, dice) },
        15 => Fault::CryWolf,
        16 => Fault::TakeForeign { key, until },
        _ => Fault::DeleteForeign { key },
    };
    (at, fault)
}

/// What the network of one client is like all the time.
fn climate(client: usize, dice: &mut Dice) -> (Time, Fault) {
    let delay = dice.pick(&[0, 0, 3, 20, 60, 200]) * MS;
    let (requests_lost, replies_lost) = (dice.pick(&[0, 0, 50]), dice.pick(&[0, 0, 50]));
    let weather = Weather { delay, requests_lost, replies_lost, until: HEALED };
    (0, Fault::Weather(client, weather))
}

fn weather(until: Time, dice: &mut Dice) -> Weather {
    let delay = dice.pick(&[5, 50, 400]) * MS;
    match dice.between(0, 5) {
        0 => Weather { requests_lost: 1_000, until, ..Weather::default() },
        1 => Weather { replies_lost: 1_000, until, ..Weather::default() },
        2 => Weather { delay, until, ..Weather::default() },
        _ => {
            Weather { delay, requests_lost: dice.between(0, 400), replies_lost: dice.between(0, 400), until }
        }
    }
}

fn lose(dice: &mut Dice) -> Lose {
    match dice.between(0, 3) {
        0 => Lose::Nothing,
        1 => Lose::Writes(usize::try_from(dice.between(1, 6)).unwrap()),
        _ => Lose::Everything,
    }
}

/// Half of the steps stay within the stated margin, where there is one.
fn clock_step(offset_margin: Duration, dice: &mut Dice) -> i64 {
    let margin = u64::try_from(offset_margin.as_micros()).unwrap();
    let size = if dice.chance(500) { margin } else { dice.between(MS, 5_000 * MS) };
    let size = i64::try_from(size).unwrap();
    if dice.chance(500) { size } else { -size }
}
