//! Redis URLs: what is accepted, and how one is shown.

use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use crate::error::SetupError;
use crate::masking::masked;

/// A client for `url`, which has not connected yet.
pub(super) fn client(url: &str) -> Result<Client, SetupError> {
    let invalid = |reason: &str| SetupError::InvalidUrl { url: masked(url), reason: reason.to_owned() };
    let Some((scheme, _)) = url.split_once("://") else {
        return Err(invalid("it has no `://`; write redis://host:port"));
    };
    match scheme {
        "redis" | "redis+unix" | "unix" => {}
        "rediss" => {
            return Err(invalid(
                "TLS is not supported yet; use redis:// inside a trusted network or a TLS tunnel",
            ));
        }
        _ => {
            let known = "`redis://host:port` or `unix:///path`";
            return Err(SetupError::UnknownScheme { scheme: scheme.to_owned(), known });
        }
    }
    // The driver's own message may quote the URL, so only its category is shown.
    let info = url.into_connection_info().map_err(|_| {
        invalid(
            "write redis://user:password@host:port/number, where the port is below 65536, the database is a \
             number, and a password's `/`, `#`, `?`, `@` and `%` are percent-encoded",
        )
    })?;
    Client::open(settings(info)).map_err(|error| invalid(error.category()))
}

/// RESP3 carries wake-ups on the connection of the commands. Keep-alive finds out a dead peer while
/// nothing is sent, as when everybody waits.
fn settings(info: ConnectionInfo) -> ConnectionInfo {
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    let redis = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    info.set_tcp_settings(tcp).set_redis_settings(redis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_server_are_accepted() {
        for url in ["redis://h", "redis://:p@h:7000/3", "redis://u:p@[::1]:7000", "unix:///run/r.sock"] {
            assert!(client(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn refusals_say_what_to_write_and_hide_the_password() {
        for url in ["redis://u:s3cret@h:port", "redis://u:s3cret@h/nodb", "rediss://u:s3cret@h", "s3cret://"]
        {
            let refusal = client(url).unwrap_err().to_string();
            assert!(url.starts_with("s3cret") || !refusal.contains("s3cret"), "{refusal}");
        }
        assert!(client("rediss://h").unwrap_err().to_string().contains("TLS is not supported yet"));
        assert!(client("http://h").unwrap_err().to_string().contains("no backend has the scheme `http`"));
    }
}
