//! What a failed statement means, in sentences without keys, owners and passwords.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::BackendError;

const ROW_LOCKED: &str = "another transaction has locked the row for too long";

/// A failure before the statement itself was sent.
pub(crate) fn before_sending(error: &Error) -> BackendError {
    match error.as_db_error() {
        Some(refusal) if is_of_pooler(refusal) => BackendError::not_applied(format!(
            "a pooler in between refused: it has no server for us, or it stands before the server in transaction \
             mode; then write `pooler=transaction` in the URL ({})",
            refusal.code().code()
        )),
        Some(refusal) => refused(refusal),
        None => BackendError::not_applied(format!("cannot reach PostgreSQL: {}", broken(error))),
    }
}

/// A failure after the statement may have been sent.
pub(crate) fn after_sending(error: &Error) -> BackendError {
    match error.as_db_error() {
        Some(refusal) if is_of_pooler(refusal) => BackendError::unknown(format!(
            "a pooler in between has lost the server, or has found none for us; look into its log ({})",
            refusal.code().code()
        )),
        // The end of a session may come between the commit and its answer.
        Some(refusal) if ends_session(refusal) => refused(refusal).unknown_after_all(),
        Some(refusal) => refused(refusal),
        None => BackendError::unknown(format!(
            "the connection to PostgreSQL broke before its answer: {}",
            broken(error)
        )),
    }
}

/// An answer that the statement does not give.
pub(super) fn unexpected_answer() -> BackendError {
    BackendError::unknown("PostgreSQL gave an answer of an unexpected form; is there a proxy in between?")
}

/// A row that a renewal has left out.
pub(super) fn row_locked() -> BackendError {
    BackendError::not_applied(format!("PostgreSQL refused: {ROW_LOCKED}"))
}

/// The ttl is outside of what the server can count.
pub(super) fn unusable_ttl() -> BackendError {
    BackendError::not_applied("a ttl must be at least 1 ms and at most 100 years").permanent()
}

/// Whether the connection is of no more use: its session ends, or its server no longer writes.
pub(crate) fn ends_connection(error: &Error) -> bool {
    error
        .as_db_error()
        .is_none_or(|refusal| ends_session(refusal) || *refusal.code() == SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Poolers speak of connections, in class 08, which servers do not in the midst of a session.
fn is_of_pooler(refusal: &DbError) -> bool {
    refusal.code().code().starts_with("08")
}

fn ends_session(refusal: &DbError) -> bool {
    matches!(refusal.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None)
}

/// A statement that fails leaves nothing behind, since each is a transaction of its own.
fn refused(refusal: &DbError) -> BackendError {
    let code = refusal.code();
    let (reason, permanent) = known(code).unwrap_or((kind(code), false));
    let failure = BackendError::not_applied(format!("PostgreSQL refused: {reason} ({})", code.code()));
    if permanent { failure.permanent() } else { failure }
}

/// A failure of a statement in a transaction of the caller's, which is not committed.
pub(crate) fn in_transaction(error: &Error) -> BackendError {
    let Some(refusal) = error.as_db_error() else {
        return BackendError::not_applied(format!(
            "the connection broke, so PostgreSQL rolls the transaction back: {}",
            broken(error)
        ));
    };
    let code = refusal.code();
    let reason = match *code {
        SqlState::IN_FAILED_SQL_TRANSACTION => "a statement before it has failed; roll the transaction back",
        SqlState::T_R_DEADLOCK_DETECTED => {
            "a deadlock with another transaction; roll this one back, and begin again"
        }
        SqlState::T_R_SERIALIZATION_FAILURE => {
            "a concurrent transaction was in the way; roll this one back, and begin again"
        }
        SqlState::UNDEFINED_TABLE => "a table of the statement is missing, or not on the search path",
        SqlState::UNDEFINED_COLUMN => "a column of the statement is missing",
        SqlState::INSUFFICIENT_PRIVILEGE => "this user may not do that; grant it",
        SqlState::SYNTAX_ERROR => "the statement is no SQL",
        SqlState::READ_ONLY_SQL_TRANSACTION
        | SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::QUERY_CANCELED
        | SqlState::DISK_FULL
        | SqlState::OUT_OF_MEMORY => known(code).map_or("", |(reason, _)| reason),
        _ => kind(code),
    };
    // Repeating the statement alone is useless: the transaction has failed.
    BackendError::not_applied(format!("PostgreSQL refused: {reason} ({})", code.code())).permanent()
}

/// What a code means, and whether repeating the statement is useless. The server's own texts may quote keys
/// and owners, and are in any language.
fn known(code: &SqlState) -> Option<(&'static str, bool)> {
    Some(match *code {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => (
            "the tables of the locks are missing; make them once, by `lockrt::Postgres::migrate` or from \
             `lockrt::Postgres::schema_sql`, in the schema that the URL names",
            true,
        ),
        SqlState::UNDEFINED_COLUMN | SqlState::DATATYPE_MISMATCH | SqlState::UNDEFINED_FUNCTION => {
            ("the tables of the locks are not as this version of lockrt makes them", true)
        }
        SqlState::INSUFFICIENT_PRIVILEGE => (
            "this user may not select, insert, update and delete in lockrt_locks and lockrt_floor; grant it",
            true,
        ),
        SqlState::INVALID_PASSWORD => ("user or password is wrong", true),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (
            "user or password is wrong, or pg_hba.conf does not let them in from here, or in this way: perhaps it \
             demands TLS, so write `sslmode=verify-full` in the URL",
            true,
        ),
        SqlState::INVALID_CATALOG_NAME => ("there is no database of this name; correct it in the URL", true),
        SqlState::UNTRANSLATABLE_CHARACTER | SqlState::CHARACTER_NOT_IN_REPERTOIRE => (
            "its encoding has no such character as one in the key; use a database in UTF8, or plain keys",
            true,
        ),
        SqlState::READ_ONLY_SQL_TRANSACTION => ("it is read-only, perhaps a standby since a failover", false),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            ("it is shutting down or starting up", false)
        }
        SqlState::TOO_MANY_CONNECTIONS => ("it has no connection left; raise max_connections", false),
        SqlState::QUERY_CANCELED => ("the statement took longer than statement_timeout", false),
        SqlState::LOCK_NOT_AVAILABLE => (ROW_LOCKED, false),
        SqlState::T_R_SERIALIZATION_FAILURE => (
            "a concurrent transaction was in the way; let locks be taken at isolation level read committed",
            false,
        ),
        SqlState::T_R_DEADLOCK_DETECTED => {
            ("a deadlock, with a transaction that touches rows of locks", false)
        }
        SqlState::DISK_FULL => ("its disk is full", false),
        SqlState::OUT_OF_MEMORY => ("it is out of memory", false),
        _ => return None,
    })
}

/// What the class of a code says, which are its first two characters.
fn kind(code: &SqlState) -> &'static str {
    match code.code().get(..2) {
        Some("08") => "a pooler in between has lost the server, or has found none",
        Some("53") => "it lacks resources",
        Some("57") => "an operator has intervened",
        Some("58" | "XX") => "an error of its own, look into its log",
        _ => "look the code up in its documentation, and into its log",
    }
}

/// What broke, without what was sent.
fn broken(error: &Error) -> String {
    match std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>()) {
        Some(io) => format!("{error}, {io}"),
        None => error.to_string(),
    }
}
