//! The floor: redis-rs alone, sending what lockrt sends for the same keys.
//!
//! It lets lockrt take and release each key once, listens what that asks the server, and repeats it. So the floor
//! follows lockrt when that changes its commands.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, Value};

use super::lockrt::Lockrt;
use super::{Contestant, How, Name, stored_key};
use crate::Result;
use crate::driver::KEYS;
use crate::monitor::Monitor;
use crate::options::Orders;

/// A cycle that takes longer has met something else than its server.
const PROMPT: Duration = Duration::from_millis(100);

/// So often it may have no answer in time, as under valgrind.
const FAILURES: u32 = 20;

pub(crate) struct Raw {
    connection: MultiplexedConnection,
    recorded: Vec<Recorded>,
    lean: bool,
}

/// What one key takes.
struct Recorded {
    acquire: Vec<Template>,
    release: Vec<Template>,
}

/// One command; of lockrt's arguments only its clock changes.
struct Template {
    words: Vec<Word>,
    bytes: usize,
}

enum Word {
    Same(Vec<u8>),
    /// Microseconds since 1970.
    Now,
}

impl Contestant for Raw {
    type Key = usize;
    type Held = usize;

    async fn connect(orders: &Orders) -> Result<Self> {
        let lean = orders.name == Name::Lean;
        let client = redis::Client::open(orders.url.as_str())?;
        let recorded = record(orders, &client).await?;
        let connection = if lean {
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            client.get_multiplexed_async_connection_with_config(&config).await?
        } else {
            client.get_multiplexed_async_connection().await?
        };
        Ok(Self { connection, recorded, lean })
    }

    fn key(number: usize) -> usize {
        number
    }

    async fn acquire(&self, key: &usize, _: How) -> Result<usize> {
        let answer = self.send(&self.recorded[*key].acquire).await?;
        // A held key: a list, or the value of somebody else.
        match answer {
            Value::Array(_) | Value::Int(_) => Err(format!("the key is held: {answer:?}").into()),
            _ => Ok(*key),
        }
    }

    async fn release(&self, held: usize) -> Result<()> {
        match self.send(&self.recorded[held].release).await? {
            Value::Int(0) => Err("the key was not held".into()),
            _ => Ok(()),
        }
    }
}

impl Raw {
    /// Sends commands in one round trip; answers what the first was told.
    async fn send(&self, templates: &[Template]) -> Result<Value> {
        let mut connection = self.connection.clone();
        if let [template] = templates {
            return Ok(self.cmd(template).query_async(&mut connection).await?);
        }
        let mut pipeline = Pipeline::with_capacity(templates.len());
        for template in templates {
            pipeline.add_command(self.cmd(template));
        }
        let mut answers: Vec<Value> = pipeline.query_async(&mut connection).await?;
        Ok(answers.swap_remove(0))
    }

    fn cmd(&self, template: &Template) -> Cmd {
        let mut cmd =
            if self.lean { Cmd::with_capacity(template.words.len(), template.bytes) } else { Cmd::new() };
        for word in &template.words {
            match word {
                Word::Same(word) => cmd.arg(word.as_slice()),
                Word::Now => cmd.arg(now_us()),
            };
        }
        cmd
    }

    pub(crate) async fn ping(&self) -> Result<()> {
        let mut connection = self.connection.clone();
        redis::cmd("PING").query_async::<()>(&mut connection).await?;
        Ok(())
    }
}

/// Listens to lockrt.
async fn record(orders: &Orders, client: &redis::Client) -> Result<Vec<Recorded>> {
    let address = orders.url.strip_prefix("redis://").ok_or("the URL is redis://host:port")?;
    let lockrt = Lockrt::connect(&Orders { name: Name::Lockrt, ..orders.clone() }).await?;
    // A client may do more for its first lock, and for the first one of each slot.
    for number in 0..KEYS {
        if let Ok(first) = lockrt.acquire(&Lockrt::key(number), How::Free).await {
            lockrt.release(first).await?;
        }
    }
    let mut monitor = Monitor::open(address)?;
    let mut marks = client.get_connection()?;
    let (mut recorded, mut failures) = (Vec::new(), 0);
    while recorded.len() < KEYS {
        let (number, began) = (recorded.len(), Instant::now());
        let Ok(held) = lockrt.acquire(&Lockrt::key(number), How::Free).await else {
            failures += 1;
            if failures == FAILURES {
                return Err("lockrt gets no lock to be listened to".into());
            }
            continue;
        };
        let acquire = heard(&mut monitor, &mut marks, number)?;
        lockrt.release(held).await?;
        let release = heard(&mut monitor, &mut marks, number)?;
        if acquire.is_empty() || release.is_empty() {
            return Err("lockrt has sent no command that names its key".into());
        }
        // On a machine that does much else it may have asked twice.
        if began.elapsed() < PROMPT {
            recorded.push(Recorded { acquire, release });
        }
    }
    Ok(recorded)
}

/// What the server has been asked up to now by the client that named key `number`.
fn heard(monitor: &mut Monitor, marks: &mut redis::Connection, number: usize) -> Result<Vec<Template>> {
    let key = stored_key(number).into_bytes();
    redis::cmd("ECHO").arg("mark").exec(marks)?;
    let mut all = Vec::new();
    loop {
        let asked = monitor.next()?.ok_or("MONITOR has ended")?;
        if asked.words.last().is_some_and(|word| word == b"mark") {
            break;
        }
        all.push(asked);
    }
    let whose = all.iter().find(|asked| asked.words.contains(&key)).map(|asked| asked.client.clone());
    // What it repeats for an earlier key, or asks now and then of the server, is not part of the cycle.
    let other = |word: &Vec<u8>| word.starts_with(b"lock:bench:") && *word != key;
    let about = |word: &Vec<u8>| *word == key || word.ends_with(b"}:fencing");
    let theirs = all.into_iter().filter(|asked| Some(&asked.client) == whose.as_ref());
    let theirs = theirs.filter(|asked| asked.words.iter().any(about) && !asked.words.iter().any(other));
    Ok(theirs.map(|asked| Template::new(asked.words)).collect())
}

impl Template {
    fn new(words: Vec<Vec<u8>>) -> Self {
        let bytes = words.iter().map(|word| word.len() + 16).sum();
        let words = words.into_iter().map(|word| if is_clock(&word) { Word::Now } else { Word::Same(word) });
        Self { words: words.collect(), bytes }
    }
}

/// Whether it is about now, in microseconds.
fn is_clock(word: &[u8]) -> bool {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<u64>().ok());
    number.is_some_and(|number| number.abs_diff(now_us()) < 3_600_000_000)
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}
