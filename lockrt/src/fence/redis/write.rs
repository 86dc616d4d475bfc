//! What is to be written: [`Write`], and scripts of the caller's, [`WriteScript`].

use std::fmt;
use std::sync::{Arc, LazyLock};

use redis::{ToRedisArgs, ToSingleRedisArg};

/// The script that announces a holder. Keys: the data, the hash with the token. Arguments: the token
/// in decimal digits, `write`, and for how many ms the token is kept, `always`, or `data`.
///
/// For clients in other languages; answers and arguments stand in its comments.
pub const REGISTER: &str = concat!(include_str!("check.lua"), include_str!("register.lua"));

/// The script that compares, and then carries out one command on the data. Keys: the data, the hash
/// with the token. Arguments: the token in decimal digits, `write` or `once`, for how many ms the
/// token is kept, `always`, or `data`; then the command and its arguments, without the data's key.
///
/// For clients in other languages; answers and arguments stand in its comments.
pub const WRITE: &str = concat!(include_str!("check.lua"), include_str!("write.lua"));

pub(super) static REGISTERING: LazyLock<Script> = LazyLock::new(|| Script::new(REGISTER));
pub(super) static WRITING: LazyLock<Script> = LazyLock::new(|| Script::new(WRITE));

/// A script, and the digest by which the server knows it.
pub(super) struct Script {
    pub(super) source: String,
    pub(super) digest: String,
}

impl Script {
    fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        let digest = redis::Script::new(&source).get_hash().to_owned();
        Self { source, digest }
    }
}

/// A script of the caller's that writes under a fence. Make it once and keep it.
///
/// It is the body of a Lua function. It sees `KEYS[1]`, the data, `KEYS[2]` and so on as added by
/// [`Write::key`], and `ARGV[1]` and so on as added by [`Write::arg`]; what it returns is the answer
/// of the write.
///
/// ```
/// use std::sync::LazyLock;
/// use lockrt::fence::redis::WriteScript;
///
/// static ADD_IF_OPEN: LazyLock<WriteScript> = LazyLock::new(|| {
///     WriteScript::new("if redis.call('EXISTS', KEYS[2]) == 1 then return redis.call('INCRBY', KEYS[1], ARGV[1]) end")
/// });
/// ```
#[derive(Clone)]
pub struct WriteScript(Arc<Script>);

impl WriteScript {
    /// The script with this body.
    #[must_use]
    pub fn new(body: &str) -> Self {
        let (check, tail) = (include_str!("check.lua"), include_str!("script.lua"));
        Self(Arc::new(Script::new(format!("{check}local function write(KEYS, ARGV)\n{body}\nend\n{tail}"))))
    }
}

impl fmt::Debug for WriteScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteScript").field("digest", &self.0.digest).finish()
    }
}

/// What a [`RedisFence`](super::RedisFence) carries out if the holder may write.
#[must_use = "nothing is written before a fence has it"]
pub struct Write {
    pub(super) what: What,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) args: Vec<Vec<u8>>,
}

pub(super) enum What {
    Command(String),
    Script(Arc<Script>),
}

impl Write {
    /// `SET` of the data.
    pub fn set(value: impl ToSingleRedisArg) -> Self {
        Self::command("SET").arg(value)
    }

    /// `HSET` of fields of the data: `&[("price", 120), ("revision", 3)]`.
    pub fn hset(fields: impl ToRedisArgs) -> Self {
        Self::command("HSET").arg(fields)
    }

    /// Any command whose first argument is the data's key, which is put there: `DEL`, `INCRBY`,
    /// `RPUSH`, `EXPIRE` and so on.
    pub fn command(name: &str) -> Self {
        Self { what: What::Command(name.to_owned()), keys: Vec::new(), args: Vec::new() }
    }

    /// A script of the caller's.
    pub fn script(script: &WriteScript) -> Self {
        Self { what: What::Script(Arc::clone(&script.0)), keys: Vec::new(), args: Vec::new() }
    }

    /// Adds an argument; a slice adds one for each of its elements.
    pub fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        arg.write_redis_args(&mut self.args);
        self
    }

    /// Adds a key for a script; in a cluster it must be in the slot of the data. A command has none
    /// but the data's.
    pub fn key(mut self, key: impl ToRedisArgs) -> Self {
        key.write_redis_args(&mut self.keys);
        self
    }

    pub(super) fn command_name(&self) -> Option<&str> {
        match &self.what {
            What::Command(name) => Some(name),
            What::Script(_) => None,
        }
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys and values are the caller's, and may be secret.
        f.debug_struct("Write")
            .field("command", &self.command_name())
            .field("keys", &self.keys.len())
            .field("args", &self.args.len())
            .finish_non_exhaustive()
    }
}
