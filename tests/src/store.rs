//! What locks protect: a store with one cell that compares fencing tokens and one that does not.

use redis::{Client, Commands, Connection, Script};

/// Two cells on a Redis server of their own, which answers also where a lock's server does not.
pub struct Store(Connection);

impl Store {
    /// The store at this URL. Its calls block.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let client = Client::open(url).expect("the URL is well-formed");
        Self(client.get_connection().expect("the store is up"))
    }

    /// Writes to both cells under this token; whether the one that compares tokens took it.
    pub fn write(&mut self, token: u64, text: &str) -> bool {
        let script = "redis.call('SET', 'plain', ARGV[2]) \
                      if tonumber(ARGV[1]) < tonumber(redis.call('GET', 'token') or 0) then return 0 end \
                      redis.call('SET', 'token', ARGV[1]) redis.call('SET', 'fenced', ARGV[2]) return 1";
        let script = Script::new(script);
        script.arg(token).arg(text).invoke(&mut self.0).expect("the store answers")
    }

    /// What stands in the cell that takes everything.
    pub fn plain(&mut self) -> String {
        self.0.get("plain").expect("the store answers")
    }

    /// What stands in the cell that compares tokens.
    pub fn fenced(&mut self) -> String {
        self.0.get("fenced").expect("the store answers")
    }
}
