//! What a failed call means, in sentences without keys, owners and passwords.

use redis::{ErrorKind, RedisError};

use crate::error::BackendError;

/// A failure before the call itself was sent.
pub(super) fn before_sending(error: &RedisError) -> BackendError {
    refusal(error).unwrap_or_else(|| BackendError::not_applied(broken("cannot reach Redis", error)))
}

/// There was no answer in time to what comes before calls.
pub(super) fn late() -> BackendError {
    before_sending(&std::io::Error::from(std::io::ErrorKind::TimedOut).into())
}

/// A failure after the call may have been sent.
pub(crate) fn after_sending(error: &RedisError) -> BackendError {
    refusal(error).unwrap_or_else(|| {
        BackendError::unknown(broken("the connection to Redis broke before its answer", error))
    })
}

/// An answer that none of the scripts gives.
pub(crate) fn unexpected_answer() -> BackendError {
    BackendError::unknown("Redis gave an answer of an unexpected form; is there a proxy in between?")
}

/// The TTL is outside of what the server can count.
pub(super) fn unusable_ttl() -> BackendError {
    BackendError::not_applied("a ttl must be at least 1 ms and at most 100 years").permanent()
}

/// A refusal by the server. It comes from before a script's first write to a lock, so the call has
/// certainly not been carried out.
fn refusal(error: &RedisError) -> Option<BackendError> {
    if error.kind() == ErrorKind::RESP3NotSupported {
        return Some(too_old());
    }
    let (code, detail) = (code_of(error)?, error.detail().unwrap_or_default());
    // Arguments follow, and they hold keys and owners. An old server gets here by `HELLO` only.
    if detail.contains("unknown command") {
        let old = detail.to_ascii_lowercase().contains("hello");
        return Some(if old { too_old() } else { missing_command() });
    }
    // Forms of known commands: `ZADD .. GT` came with version 6.2.
    if is_syntax_error(error) {
        return Some(missing_command());
    }
    let (reason, permanent) = known(code)
        // Up to version 6 the code of an error raised in a script stands in its text.
        .or_else(|| detail.split_ascii_whitespace().find_map(known))
        .unwrap_or((detail, false));
    let failure = BackendError::not_applied(format!("Redis refused: {reason} ({code})"));
    Some(if permanent { failure.permanent() } else { failure })
}

/// The code of the server's refusal. Version 7 has none of its own for a command that the user may not
/// run inside of a script.
pub(crate) fn code_of(error: &RedisError) -> Option<&str> {
    let forbidden = |detail: &str| detail.starts_with("The user executing the script can't");
    match error.code()? {
        "ERR" if error.detail().is_some_and(forbidden) => Some("NOPERM"),
        code => Some(code),
    }
}

/// Whether a server is no primary that can work, perhaps since a failover.
pub(super) fn is_deposed(error: &RedisError) -> bool {
    ["READONLY", "MASTERDOWN", "NOREPLICAS"].into_iter().any(|code| is(error, code))
}

pub(super) fn is_no_script(error: &RedisError) -> bool {
    is(error, "NOSCRIPT")
}

/// A form of a command that this server does not know.
pub(super) fn is_syntax_error(error: &RedisError) -> bool {
    error.code() == Some("ERR") && error.detail().is_some_and(|detail| detail.contains("syntax error"))
}

fn is(error: &RedisError, code: &str) -> bool {
    let in_script =
        || error.detail().is_some_and(|detail| detail.split_ascii_whitespace().any(|w| w == code));
    error.code().is_some_and(|given| given == code || (given == "ERR" && in_script()))
}

/// What a code means, and whether repeating the call is useless.
fn known(code: &str) -> Option<(&'static str, bool)> {
    Some(match code {
        "BUSY" => ("another client's script is running for too long", false),
        "CLUSTERDOWN" => ("its cluster is down", false),
        "LOADING" => ("it is still loading its data", false),
        "MASTERDOWN" => ("it has lost its primary", false),
        "MISCONF" => ("it cannot save its data to disk, so it takes no writes", false),
        "NOREPLICAS" => ("too few replicas are connected for a write", false),
        "NOSCRIPT" => ("its scripts were flushed again while they were being loaded", false),
        "OOM" => ("it is out of memory", false),
        "READONLY" => ("it is a read-only replica, perhaps since a failover", false),
        "TRYAGAIN" => ("it is moving the slot of this lock", false),
        "ASK" | "CROSSSLOT" | "MOVED" => {
            ("it is part of a cluster, and this backend talks to a single server", true)
        }
        "NOAUTH" => ("it wants a password; write redis://user:password@host:port", true),
        "NOPERM" => (
            "this user needs the commands get, mget, set, del, pexpire, pttl, exists, time, zadd, zscore, zrange, zrank, \
             zrem, evalsha, script|load, publish and subscribe, the keys `<prefix>*`, `{<prefix>*` and \
             `<fence prefix>*`, and the channels `<fence prefix>*` (by default ~lock:* ~{lock:* ~lockrt:* \
             &lockrt:*)",
            true,
        ),
        "WRONGPASS" => ("user name or password is wrong; correct them in the URL", true),
        "WRONGTYPE" => {
            ("the key of this lock or of its fence holds another type of value; use another prefix", true)
        }
        _ => return None,
    })
}

fn too_old() -> BackendError {
    BackendError::not_applied("this server does not speak RESP3; lockrt needs Redis 6.2 or newer").permanent()
}

fn missing_command() -> BackendError {
    BackendError::not_applied(
        "this server lacks a command of locks, or a form of one; lockrt needs Redis 6.2 or newer",
    )
    .permanent()
}

fn broken(what: &str, error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::Io => format!("{what}: {error}"),
        // Texts of other kinds may quote what was sent.
        _ => format!("{what}: {}", error.category()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lacks_a_form_of_a_command_is_too_old() {
        let detail = "Error running script (call to f_12ab): @user_script:25: ERR syntax error";
        let failure = after_sending(&redis::make_extension_error("ERR".into(), Some(detail.into())));
        assert!(failure.to_string().contains("6.2 or newer") && failure.is_permanent(), "{failure}");
    }
}
