//! Redis URLs: what is accepted, and how one is shown.

#[cfg(feature = "redis-tls")]
use std::path::PathBuf;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

#[cfg(feature = "redis-tls")]
use crate::backend::redis::secured::Secured;
use crate::backend::redis::server::Server;
use crate::error::SetupError;
use crate::masking::masked;

/// The server at `url`, to which nobody has connected yet.
pub(super) fn server(url: &str) -> Result<Server, SetupError> {
    let invalid = |reason: &str| SetupError::InvalidUrl { url: masked(url), reason: reason.to_owned() };
    let Some((scheme, _)) = url.split_once("://") else {
        return Err(invalid("it has no `://`; write redis://host:port"));
    };
    match scheme {
        "redis" | "redis+unix" | "unix" if asks_for_tls(url) => {
            Err(invalid("`ssl..` and `tls..` say nothing without TLS; write `rediss://host:port` with them"))
        }
        "redis" | "redis+unix" | "unix" => Ok(Server::new(client(url, url)?)),
        #[cfg(feature = "redis-tls")]
        "rediss" => secured(url),
        #[cfg(not(feature = "redis-tls"))]
        "rediss" => Err(SetupError::MissingFeature { scheme: "rediss", feature: "redis-tls" }),
        _ => {
            let known = if cfg!(feature = "redis-tls") {
                "`redis://host:port`, `rediss://host:port` for TLS, or `unix:///path`"
            } else {
                "`redis://host:port` or `unix:///path`"
            };
            Err(SetupError::UnknownScheme { scheme: scheme.to_owned(), known })
        }
    }
}

/// Whether there is a parameter that its writer takes for TLS, as the driver takes none amiss.
fn asks_for_tls(url: &str) -> bool {
    let of_tls = |parameter: &str| {
        let name = parameter.to_ascii_lowercase();
        name.starts_with("ssl") || name.starts_with("tls")
    };
    url.split_once('?').is_some_and(|(_, query)| query.split('&').any(of_tls))
}

/// A server over TLS: that of the same URL in clear text, without what says how.
#[cfg(feature = "redis-tls")]
fn secured(url: &str) -> Result<Server, SetupError> {
    let invalid = |reason: String| SetupError::InvalidUrl { url: masked(url), reason };
    if url.contains('#') {
        let reason = "nothing stands behind a `#`, and nothing turns the check of certificate and host off; write a `#` \
                      in a password as `%23`";
        return Err(invalid(reason.to_owned()));
    }
    let plain = url.replacen("rediss:", "redis:", 1);
    let (front, query) = plain.split_once('?').unwrap_or((&plain, ""));
    let (mut authorities, mut theirs) = (None, Vec::new());
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslrootcert", "system")) => authorities = None,
            Some(("sslrootcert", path)) => {
                let path = percent_encoding::percent_decode_str(path).decode_utf8();
                let path = path.map_err(|_| invalid("`sslrootcert` is no UTF-8 text".to_owned()))?;
                authorities = Some(PathBuf::from(path.into_owned()));
            }
            Some(("protocol", _)) => theirs.push(parameter),
            // One that is misspelt would leave the trust to the whole system's store.
            _ => {
                let reason = "its parameters are `sslrootcert=<path>`, `sslrootcert=system` and `protocol=<version>`; write \
                              a `?` in a password as `%3F`";
                return Err(invalid(reason.to_owned()));
            }
        }
    }
    let rest = if theirs.is_empty() { front.to_owned() } else { format!("{front}?{}", theirs.join("&")) };
    let client = client(url, &rest)?;
    let secured = Secured::new(authorities.as_deref()).map_err(invalid)?;
    Ok(Server::new(client).secured(secured))
}

/// A client for `plain`, which is shown as `url`.
fn client(url: &str, plain: &str) -> Result<Client, SetupError> {
    let invalid = |reason: &str| SetupError::InvalidUrl { url: masked(url), reason: reason.to_owned() };
    // The driver's own message may quote the URL, so only its category is shown.
    let info = plain.into_connection_info().map_err(|_| {
        invalid(
            "write redis://user:password@host:port/number, where the port is below 65536, the database is a \
             number, and a password's `/`, `#`, `?`, `@` and `%` are percent-encoded",
        )
    })?;
    if let Some(wrong) = asked_in_vain(plain) {
        return Err(invalid(wrong));
    }
    Client::open(settings(info)).map_err(|error| invalid(error.category()))
}

/// What is wrong with the parameters of a URL in clear text, of which the driver passes over those that it does not
/// know. None is quoted: one may be the rest of a password.
fn asked_in_vain(url: &str) -> Option<&'static str> {
    let (front, query) = url.split_once('?')?;
    let (known, wrong): (&[_], _) = if front.starts_with("redis:") {
        let wrong = "its one parameter is `protocol=<version>`; write a database as redis://host:port/number, and a `?` in \
                     a password as `%3F`";
        (&["protocol"], wrong)
    } else {
        (
            &["db", "user", "pass", "protocol"],
            "the parameters of a socket are `db`, `user`, `pass` and `protocol`, each with a value",
        )
    };
    let mut parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let is_known = |parameter: &str| parameter.split_once('=').is_some_and(|(name, _)| known.contains(&name));
    (!parameters.all(is_known)).then_some(wrong)
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
            assert!(server(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn refusals_say_what_to_write_and_hide_the_password() {
        for url in
            ["redis://u:s3cret@h:port", "redis://u:s3cret@h/nodb", "rediss://u:s3cret@h:port", "s3cret://"]
        {
            let refusal = server(url).err().unwrap().to_string();
            assert!(url.starts_with("s3cret:") || !refusal.contains("s3cret"), "{refusal}");
        }
        assert!(server("http://h").err().unwrap().to_string().contains("no backend has the scheme `http`"));
    }

    #[test]
    fn what_means_tls_is_refused_in_clear_text() {
        for url in
            ["redis://u:s3cret@h?sslrootcert=/ca.pem", "redis://h?protocol=3&TLS=true", "unix:///r?ssl=1"]
        {
            let said = server(url).err().unwrap().to_string();
            assert!(said.contains("write `rediss://host:port`") && !said.contains("s3cret"), "{said}");
        }
        assert!(server("redis://h?protocol=resp3").is_ok());
    }

    #[cfg(not(feature = "redis-tls"))]
    #[test]
    fn without_the_feature_tls_is_refused_by_its_name() {
        let said = server("rediss://u:s3cret@h").err().unwrap().to_string();
        assert!(said.contains("`rediss` URLs need lockrt's feature `redis-tls`"), "{said}");
    }

    #[cfg(feature = "redis-tls")]
    #[test]
    fn a_parameter_that_is_misspelt_is_not_passed_over() {
        for url in
            ["rediss://h?sslRootCert=/ca.pem", "rediss://h?%73slrootcert=/ca.pem", "rediss://h?sslrootcert"]
        {
            let said = server(url).err().unwrap().to_string();
            assert!(said.contains("its parameters are `sslrootcert=<path>`"), "{said}");
        }
        let said = server("rediss://u:s3?cret@h").err().unwrap().to_string();
        assert!(said.contains("%3F") && !said.contains("cret"), "{said}");
    }

    #[cfg(feature = "redis-tls")]
    #[test]
    fn no_url_turns_the_check_of_a_certificate_off() {
        for url in ["rediss://u:s3cret@h/#insecure", "rediss://h#", "rediss://h?sslrootcert=system#insecure"]
        {
            let said = server(url).err().unwrap().to_string();
            assert!(said.contains("nothing turns the check") && !said.contains("s3cret"), "{said}");
        }
        for url in [
            "rediss://h?sslrootcert=/nowhere/ca.pem",
            "rediss://h?protocol=resp3&sslrootcert=%2Fnowhere%2Fca.pem",
        ] {
            let said = server(url).err().unwrap().to_string();
            assert!(said.contains("`/nowhere/ca.pem`, cannot be read"), "{said}");
        }
    }
}
