//! What the command line says.

use lexopt::prelude::*;

use crate::error::StartError;
use crate::reserve::Way;

pub(crate) const HELP: &str = "\
inventory-service [naive|fenced|transaction] [--stop-before-write]
    serves; reserves in this way, `fenced` if none is given.
    --stop-before-write: the process stops itself (SIGSTOP) between the read and the write of its first reservation;
    `kill -CONT` lets it go on.
inventory-service --chaos [naive|fenced|transaction]..
    shows what becomes of a holder that is stopped past its TTL, in these ways or in all.

DATABASE_URL: the PostgreSQL for data and locks. Every instance on it must reserve in the same way.
PORT: 3000; 0 takes any free one.  INSTANCE: a name for the answers.  RUST_LOG: which events are shown.
";

#[derive(Debug)]
pub(crate) enum Arguments {
    Help,
    Serve { way: Way, stop_before_write: bool },
    Chaos { ways: Vec<Way> },
}

impl Arguments {
    pub(crate) fn read() -> Result<Self, StartError> {
        let (mut chaos, mut stop_before_write, mut ways) = (false, false, Vec::new());
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("chaos") => chaos = true,
                Long("stop-before-write") => stop_before_write = true,
                Short('h') | Long("help") => return Ok(Self::Help),
                Value(name) => {
                    let way = Way::ALL.into_iter().find(|way| *way.name() == name);
                    ways.push(way.ok_or("the ways are naive, fenced and transaction")?);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        match (chaos, &ways[..]) {
            (true, []) => Ok(Self::Chaos { ways: Way::ALL.to_vec() }),
            (true, _) if !stop_before_write => Ok(Self::Chaos { ways }),
            (false, []) => Ok(Self::Serve { way: Way::Fenced, stop_before_write }),
            (false, &[way]) => Ok(Self::Serve { way, stop_before_write }),
            _ => Err("one way only, and --stop-before-write not with --chaos; see --help".into()),
        }
    }
}
