//! One call of a script, and what its answer means.

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use super::write::{Script, What, Write};
use super::{Keep, RedisFence};
use crate::backend::redis::failure;
use crate::error::BackendError;
use crate::fence::error::FenceError;
use crate::fence::marks::Idiom;
use crate::token::FencingToken;

pub(super) struct Call<'a> {
    pub(super) fence: &'a RedisFence,
    pub(super) token: FencingToken,
    pub(super) idiom: Idiom,
}

impl Call<'_> {
    /// Calls `script` by its digest, or with its source if the server has forgotten it.
    pub(super) async fn make(
        &self,
        connection: &mut impl ConnectionLike,
        script: &Script,
        write: Option<&Write>,
    ) -> Result<Value, FenceError> {
        let by_digest = self.command("EVALSHA", &script.digest, write);
        let mut answer = ask(connection, &by_digest).await;
        if answer.as_ref().is_err_and(is_no_script) {
            let by_source = self.command("EVAL", &script.source, write);
            answer = ask(connection, &by_source).await;
        }
        self.meaning(answer).inspect_err(FenceError::tell)
    }

    fn command(&self, name: &str, script: &str, write: Option<&Write>) -> Cmd {
        let (keys, args) = write.map_or((&[][..], &[][..]), |write| (&write.keys[..], &write.args[..]));
        let mut cmd = redis::cmd(name);
        cmd.arg(script)
            .arg(2 + keys.len())
            .arg(self.fence.data.as_str())
            .arg(&self.fence.token_key)
            .arg(keys);
        cmd.arg(self.token.get()).arg(if self.idiom == Idiom::Once { "once" } else { "write" });
        match self.fence.keep {
            Keep::Always => cmd.arg("always"),
            Keep::WithData => cmd.arg("data"),
            Keep::For(time) => cmd.arg(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        };
        if let Some(Write { what: What::Command(command), .. }) = write {
            cmd.arg(command);
        }
        cmd.arg(args);
        cmd
    }

    fn meaning(&self, answer: RedisResult<Value>) -> Result<Value, FenceError> {
        let answer = answer.map_err(|error| self.refusal(&error))?;
        let Value::Array(parts) = answer else { return Err(self.unexpected()) };
        let mut parts = parts.into_iter();
        let status = parts.next().as_ref().and_then(text_of).unwrap_or_default().to_owned();
        let rest = parts.next().unwrap_or(Value::Nil);
        let (resource, offered) = (self.fence.data.clone(), self.token);
        match status.as_str() {
            "done" => Ok(rest),
            "stale" | "repeated" => {
                let stored = text_of(&rest).and_then(|digits| digits.parse().ok());
                let Some(stored) = stored.map(FencingToken::new) else { return Err(self.no_token()) };
                Err(FenceError::refused(resource, offered, stored))
            }
            "unusable" => Err(self.no_token()),
            "type" => Err(self.wrong_type()),
            "failed" => Err(self.unavailable(BackendError::unknown(format!(
                "the script failed: {}",
                text_of(&rest).unwrap_or("it did not say why")
            )))),
            _ => Err(self.unexpected()),
        }
    }

    /// What an error in place of an answer means: the write has not been done, unless the connection
    /// broke.
    fn refusal(&self, error: &RedisError) -> FenceError {
        match failure::code_of(error) {
            Some("WRONGTYPE") => self.wrong_type(),
            Some("NOPERM") => self.unavailable(
                BackendError::not_applied(
                    "this user may not run the write, or one of evalsha, eval, hmget, hset, persist and \
                     pexpire, on the data's key and on that of their token (NOPERM)",
                )
                .permanent(),
            ),
            Some("CROSSSLOT" | "MOVED" | "ASK") => self.unavailable(
                BackendError::not_applied(
                    "the keys of this write are in different slots of a cluster, or the connection is not one \
                     to a cluster",
                )
                .permanent(),
            ),
            _ => self.unavailable(failure::after_sending(error)),
        }
    }

    fn wrong_type(&self) -> FenceError {
        let reason = "its key, or the key of its token, holds another type of value; nothing was written";
        FenceError::Unusable { resource: self.fence.data.clone(), reason }
    }

    fn no_token(&self) -> FenceError {
        let reason = "`lockrt:token` or `lockrt:written` beside it is no decimal number of 64 bits; nothing was \
                      written, so set it right by hand";
        FenceError::Unusable { resource: self.fence.data.clone(), reason }
    }

    fn unexpected(&self) -> FenceError {
        self.unavailable(failure::unexpected_answer())
    }

    fn unavailable(&self, source: BackendError) -> FenceError {
        FenceError::Unavailable { resource: self.fence.data.clone(), source }
    }
}

/// The answer as such. An error inside of it is part of what a script of the caller's returned.
async fn ask(connection: &mut impl ConnectionLike, cmd: &Cmd) -> RedisResult<Value> {
    match connection.req_packed_command(cmd).await? {
        Value::ServerError(error) => Err(error.into()),
        answer => Ok(answer),
    }
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
