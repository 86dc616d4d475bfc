//! PostgreSQL URLs: what is accepted, and what they choose.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::error::SetupError;
use crate::masking::masked;

/// How long finding a peer that has vanished may take while nothing is sent, as when everybody waits.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// How long sent data may stay unacknowledged.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// What a URL says.
pub(super) struct Parsed {
    pub(super) config: Config,
    pub(super) schema: Option<String>,
    pub(super) pooled: bool,
    /// A file of authorities, in place of those of the system.
    pub(super) authorities: Option<PathBuf>,
}

/// Reads `url`.
pub(super) fn parse(url: &str) -> Result<Parsed, SetupError> {
    let invalid = |reason: &str| SetupError::InvalidUrl { url: masked(url), reason: reason.to_owned() };
    match url.split_once("://") {
        Some(("postgres" | "postgresql", _)) => {}
        Some((scheme, _)) => {
            let known = "`postgres://user@host:port/database`";
            return Err(SetupError::UnknownScheme { scheme: scheme.to_owned(), known });
        }
        None => return Err(invalid("it has no `://`; write postgres://user@host:port/database")),
    }
    let (mut schema, mut pooled, mut secured, mut authorities) = (None, false, false, None);
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let mut theirs = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("pooler", "transaction")) => pooled = true,
            Some(("pooler", "none")) => pooled = false,
            Some(("pooler", _)) => return Err(invalid("`pooler` is `transaction` or `none`")),
            Some(("schema", name)) => schema = Some(text(name).ok_or(invalid("`schema` is no UTF-8 text"))?),
            // All three are the strictest of them.
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => secured = true,
            Some(("sslmode", "disable")) => {}
            Some(("sslmode", _)) => return Err(invalid(MODES)),
            Some(("sslrootcert", "system")) => authorities = None,
            Some(("sslrootcert", path)) => {
                let path = text(path).ok_or(invalid("`sslrootcert` is no UTF-8 text"))?;
                authorities = Some(PathBuf::from(path));
            }
            _ => theirs.push(parameter),
        }
    }
    let rest = if theirs.is_empty() { front.to_owned() } else { format!("{front}?{}", theirs.join("&")) };
    // The driver's own message may quote the URL.
    let mut config: Config = rest.parse().map_err(|_| {
        invalid(
            "write postgres://user:password@host:port/database, where the port is below 65536, special \
             characters of user and password are percent-encoded, and each parameter behind the `?` is one \
             of libpq's that tokio-postgres knows, or `pooler`, `schema` or `sslrootcert`",
        )
    })?;
    if secured {
        config.ssl_mode(SslMode::Require);
    }
    Ok(Parsed { config, schema, pooled, authorities })
}

const MODES: &str = "`sslmode` is `verify-full`, `verify-ca` or `require`, which all verify certificate and host, or \
                     `disable` for clear text; `prefer` and `allow` would let whoever is in between choose";

fn text(encoded: &str) -> Option<String> {
    Some(percent_decode_str(encoded).decode_utf8().ok()?.into_owned())
}

/// Completes what the caller left open. `options` go to the server when a connection begins.
pub(crate) fn complete(mut config: Config, pooled: bool, options: &str) -> Config {
    if config.get_application_name().is_none() {
        config.application_name("lockrt");
    }
    // A standby grants nothing; of several hosts the one is sought that does.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    let (idle, interval, retries) = KEEPALIVE;
    config.keepalives_idle(idle).keepalives_interval(interval).keepalives_retries(retries);
    config.tcp_user_timeout(UNACKNOWLEDGED);
    // A pooler refuses what it cannot keep apart between the clients of one connection.
    if !pooled {
        // Behind the caller's own: of two settings of one name the last one counts.
        let options = config.get_options().map_or(options.to_owned(), |own| format!("{own} {options}"));
        config.options(options);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_choose_schema_and_pooler_and_leave_the_rest_to_the_driver() {
        let parsed =
            parse("postgres://u:p@h:7000/d?schema=my%20locks&connect_timeout=3&pooler=transaction").unwrap();
        assert_eq!((parsed.schema.as_deref(), parsed.pooled), (Some("my locks"), true));
        assert_eq!(parsed.config.get_dbname(), Some("d"));
        assert_eq!(parsed.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        for url in
            ["postgresql://h", "postgres:///d?host=/run/postgresql", "postgres://h1,h2:7000/d?pooler=none"]
        {
            assert!(parse(url).is_ok_and(|parsed| !parsed.pooled && parsed.schema.is_none()), "{url}");
        }
    }

    #[test]
    fn refusals_say_what_to_write_and_hide_the_password() {
        for url in [
            "postgres://u:s3cret@h:port/d",
            "postgres://u:s3cret@h/d?nonsense=1",
            "postgres://u:s3cret@h/d?pooler=session",
            "postgres://u:s3cret@h/d?sslmode=prefer",
            "postgres://u:s3cret@h/d?sslrootcert=%ff",
        ] {
            let refusal = parse(url).err().unwrap().to_string();
            assert!(!refusal.contains("s3cret") && refusal.contains("u:***@h"), "{refusal}");
        }
        assert!(parse("mysql://h").err().unwrap().to_string().contains("no backend has the scheme `mysql`"));
    }

    #[test]
    fn three_modes_are_tls_and_the_ones_that_give_it_up_are_refused() {
        for mode in ["require", "verify-ca", "verify-full", "require&sslmode=disable"] {
            let parsed = parse(&format!("postgres://h?sslmode={mode}&sslrootcert=%2Fa%20b")).unwrap();
            assert_eq!(parsed.config.get_ssl_mode(), SslMode::Require, "{mode}");
            assert_eq!(parsed.authorities, Some(PathBuf::from("/a b")));
        }
        assert_ne!(parse("postgres://h?sslmode=disable").unwrap().config.get_ssl_mode(), SslMode::Require);
        assert_eq!(parse("postgres://h?sslrootcert=system").unwrap().authorities, None);
        for mode in ["prefer", "allow", "verify", ""] {
            let refusal = parse(&format!("postgres://h?sslmode={mode}")).err().unwrap().to_string();
            assert!(refusal.contains("`prefer` and `allow` would let whoever"), "{refusal}");
        }
    }

    #[test]
    fn the_callers_own_options_stay_and_a_pooler_gets_none() {
        let config = |pooled| {
            let parsed = parse("postgres://h?options=-c%20search_path%3Dx").unwrap();
            complete(parsed.config, pooled, "-c statement_timeout=1")
        };
        assert_eq!(config(false).get_options(), Some("-c search_path=x -c statement_timeout=1"));
        assert_eq!(config(true).get_options(), Some("-c search_path=x"));
        assert_eq!(config(false).get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }
}
