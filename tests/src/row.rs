//! A row in a store, which compares fencing tokens or does not.

use redis::{Client, Connection, Script};

/// Where a row is, and whether its store refuses a token smaller than the greatest it has seen.
#[derive(Clone, Debug)]
pub struct Row {
    /// The Redis server that stores it.
    pub url: String,
    /// Whether it compares tokens.
    pub fenced: bool,
}

/// A connection to a row. Its calls block, as a write does that has been sent.
pub struct Opened {
    connection: Connection,
    fenced: bool,
}

const NAME: &str = "row";
const PLAIN: &str = "redis.call('HSET', KEYS[1], 'value', ARGV[1]) return 1";
const FENCED: &str = "
    local last = tonumber(redis.call('HGET', KEYS[1], 'token') or 0)
    if tonumber(ARGV[2]) < last then return 0 end
    redis.call('HSET', KEYS[1], 'value', ARGV[1], 'token', ARGV[2])
    return 1";

impl Row {
    /// Connects to its server.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn open(&self) -> Opened {
        let client = Client::open(self.url.as_str()).expect("the URL is well-formed");
        Opened { connection: client.get_connection().expect("the store is up"), fenced: self.fenced }
    }
}

impl Opened {
    /// Writes `value` under `token`; whether the store took it.
    ///
    /// # Panics
    ///
    /// If the store does not answer.
    pub fn write(&mut self, value: &str, token: u64) -> bool {
        let script = Script::new(if self.fenced { FENCED } else { PLAIN });
        let mut call = script.prepare_invoke();
        call.key(NAME).arg(value).arg(token);
        call.invoke(&mut self.connection).expect("the store answers")
    }

    /// What the row holds.
    ///
    /// # Panics
    ///
    /// If the store does not answer.
    pub fn value(&mut self) -> String {
        let mut get = redis::cmd("HGET");
        get.arg(NAME).arg("value").query(&mut self.connection).expect("the store answers")
    }
}
