//! What can happen to data on its way.

use std::ops::Range;
use std::time::Duration;

use crate::Dice;

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Answer,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As when a process exits: what was sent arrives, then there is no more.
    Close,
    /// As when a machine lost its memory of the connection: RST, an error on both sides.
    Reset,
}

/// One thing that the proxy does to the data of one direction. Several add up, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toxic {
    /// Every piece comes later by a random time, and never before the piece ahead of it.
    Latency {
        /// The direction.
        way: Way,
        /// The range of the time, in milliseconds.
        ms: Range<u64>,
    },
    /// Each connection has a delay of its own, the same for all its pieces.
    Distance {
        /// The direction.
        way: Way,
        /// The range of the delay, in milliseconds.
        ms: Range<u64>,
    },
    /// Data comes in small parts.
    Trickle {
        /// The direction.
        way: Way,
        /// The size of a part.
        bytes: usize,
        /// The time from one part to the next.
        every: Duration,
    },
    /// Everything waits until this toxic is over, then arrives late: a short partition, after which
    /// TCP sends again.
    Stall {
        /// The direction.
        way: Way,
    },
    /// Everything is lost, and the connection stays open. A connection that has lost something
    /// stays silent this way for good, since TCP delivers nothing after a gap; new ones pass when
    /// this is over.
    Lose {
        /// The direction.
        way: Way,
    },
    /// A connection ends once so much has passed on it; with 0 bytes at the next piece, which is lost.
    Limit {
        /// The direction whose bytes count.
        way: Way,
        /// How many pass.
        bytes: u64,
        /// How it ends.
        end: End,
    },
    /// A connection ends for its client at the next request, which the server gets later.
    Overtaken {
        /// How much later.
        by: Duration,
    },
    /// New connections are closed at once.
    Refuse,
}

impl Toxic {
    /// Whether it concerns data that goes this `way`.
    pub(super) fn is_on(&self, way: Way) -> bool {
        match self {
            Self::Latency { way: its, .. }
            | Self::Distance { way: its, .. }
            | Self::Trickle { way: its, .. }
            | Self::Stall { way: its }
            | Self::Lose { way: its }
            | Self::Limit { way: its, .. } => *its == way,
            Self::Overtaken { .. } => way == Way::Request,
            Self::Refuse => false,
        }
    }

    /// Any of them, as bad as a network that locks survive: delays below 40 ms, and connections
    /// that end.
    pub fn random(dice: &mut Dice) -> Self {
        let way = if dice.within(0..2) == 0 { Way::Request } else { Way::Answer };
        let end = if dice.within(0..2) == 0 { End::Close } else { End::Reset };
        match dice.within(0..8) {
            0 => Self::Latency { way, ms: 0..dice.within(1..40) },
            1 => Self::Distance { way, ms: 0..dice.within(1..40) },
            2 => Self::Trickle { way, bytes: 16, every: Duration::from_millis(1) },
            3 => Self::Lose { way },
            4 => Self::Limit { way, bytes: dice.within(0..400), end },
            5 => Self::Stall { way },
            6 => Self::Overtaken { by: Duration::from_millis(dice.within(0..200)) },
            _ => Self::Refuse,
        }
    }
}

/// A fault of the proxy as a whole, until another one is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Requests arrive, answers do not; connections stay open. As always, a connection that has
    /// lost something stays silent.
    DropReplies,
    /// Answers arrive, requests do not; connections stay open.
    DropRequests,
    /// Nothing arrives either way; connections stay open, as with a cable pulled out.
    Silence,
    /// Nothing arrives either way until this is over; then everything does, late.
    Stall,
    /// Cuts the client off at its next request, once, and delivers that request this much later.
    CutAtRequest {
        /// When the server gets the request.
        deliver_after: Duration,
    },
    /// Cuts the client off when the answer to a request comes, once: applied, never answered.
    CutAtReply,
    /// Resets the connection in the middle of the next answer, once: applied, half answered.
    ResetInReply {
        /// How much of the answer arrives.
        after_bytes: u64,
    },
    /// New connections are closed at once.
    Refuse,
}

impl Fault {
    /// What it does, and whether it is over when it has done so.
    pub(super) fn toxics(self) -> (Vec<Toxic>, bool) {
        let (request, answer) = (Way::Request, Way::Answer);
        match self {
            Self::None => (Vec::new(), false),
            Self::DropReplies => (vec![Toxic::Lose { way: answer }], false),
            Self::DropRequests => (vec![Toxic::Lose { way: request }], false),
            Self::Silence => (vec![Toxic::Lose { way: request }, Toxic::Lose { way: answer }], false),
            Self::Stall => (vec![Toxic::Stall { way: request }, Toxic::Stall { way: answer }], false),
            Self::CutAtRequest { deliver_after } => (vec![Toxic::Overtaken { by: deliver_after }], true),
            Self::CutAtReply => (vec![Toxic::Limit { way: answer, bytes: 0, end: End::Close }], true),
            Self::ResetInReply { after_bytes } => {
                (vec![Toxic::Limit { way: answer, bytes: after_bytes, end: End::Reset }], true)
            }
            Self::Refuse => (vec![Toxic::Refuse], false),
        }
    }
}
