//! What lies between clients and server: several connections for each client, with delays, cuts
//! and losses.

use crate::protocol::simulation::dice::Dice;
use crate::protocol::simulation::drift::{MS, Time};

/// Connections of one client.
pub(super) const LINES: usize = 3;

/// One connection. What is sent on it arrives in order; a cut one is opened anew, and what was
/// sent before the cut may be overtaken.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    last: Time,
    down_until: Time,
}

/// What is wrong for one client or, with the network at large, for all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    /// The longest delay of a message beyond the ordinary.
    pub(super) delay: Time,
    /// How many requests and replies in a thousand are lost.
    pub(super) requests_lost: u64,
    pub(super) replies_lost: u64,
    pub(super) until: Time,
}

#[derive(Debug)]
pub(super) struct Network {
    lines: Vec<[Line; LINES]>,
    weather: Vec<Weather>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Arrives(Time),
    Lost,
    /// Never sent: there is no connection.
    Refused,
}

impl Network {
    pub(super) fn new(clients: usize) -> Self {
        Self { lines: vec![[Line::default(); LINES]; clients], weather: vec![Weather::default(); clients] }
    }

    pub(super) fn set(&mut self, client: usize, weather: Weather) {
        self.weather[client] = weather;
    }

    pub(super) fn cut(&mut self, client: usize, line: usize, until: Time) {
        self.lines[client][line] = Line { last: 0, down_until: until };
    }

    pub(super) fn request(&mut self, client: usize, line: usize, now: Time, dice: &mut Dice) -> Fate {
        let weather = self.weather(client, now);
        let line = &mut self.lines[client][line];
        if now < line.down_until {
            return Fate::Refused;
        }
        if dice.chance(weather.requests_lost) {
            return Fate::Lost;
        }
        // What happens at one time is shuffled.
        line.last = (line.last + 1).max(now + delay(weather, dice));
        Fate::Arrives(line.last)
    }

    pub(super) fn reply(&self, client: usize, now: Time, dice: &mut Dice) -> Fate {
        let weather = self.weather(client, now);
        if dice.chance(weather.replies_lost) {
            return Fate::Lost;
        }
        Fate::Arrives(now + delay(weather, dice))
    }

    /// A message that nobody asked for; it comes by the first line.
    pub(super) fn push(&self, client: usize, now: Time, dice: &mut Dice) -> Fate {
        if now < self.lines[client][0].down_until { Fate::Lost } else { self.reply(client, now, dice) }
    }

    fn weather(&self, client: usize, now: Time) -> Weather {
        let weather = self.weather[client];
        if now < weather.until { weather } else { Weather::default() }
    }
}

fn delay(weather: Weather, dice: &mut Dice) -> Time {
    let ordinary = dice.between(50, 800);
    // Most messages are quick in bad weather, too: that is what lets later ones overtake.
    if weather.delay > 0 && dice.chance(500) {
        ordinary + dice.between(0, weather.delay + MS)
    } else {
        ordinary
    }
}
