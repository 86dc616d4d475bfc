//! The server, and how a connection to it is made.

use std::path::Path;

use tokio_postgres::config::{ChannelBinding, Config, Host, SslMode, SslNegotiation};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Connection, Error, Socket};

use crate::backend::postgres::failure;
#[cfg(feature = "postgres-tls")]
use crate::backend::tls::{self, Authorities};
use crate::error::BackendError;

#[cfg(feature = "postgres-tls")]
type Connector = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "postgres-tls"))]
type Connector = tokio_postgres::NoTls;

/// What carries a connection out.
pub(crate) type Driver = Connection<Socket, <Connector as MakeTlsConnect<Socket>>::Stream>;

/// A server to connect to, over TLS if its configuration asks for it, and else in clear text.
#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    connector: Connector,
}

impl Server {
    /// What `config` names. Over TLS its certificate must be good for its host by the authorities in this file,
    /// or by those of the system.
    ///
    /// # Errors
    ///
    /// A sentence that says why TLS cannot be had in this way.
    pub(crate) fn new(mut config: Config, authorities: Option<&Path>) -> Result<Self, String> {
        let secured = config.get_ssl_mode() == SslMode::Require;
        let named = |host: &Host| matches!(host, Host::Tcp(_));
        if !secured {
            // What the driver leaves open is clear text, and never a try.
            config.ssl_mode(SslMode::Disable);
            if authorities.is_some()
                || config.get_ssl_negotiation() == SslNegotiation::Direct
                || config.get_channel_binding() == ChannelBinding::Require
            {
                return Err("`sslrootcert`, `sslnegotiation=direct` and `channel_binding=require` say nothing without \
                            TLS; write `sslmode=verify-full` with them"
                    .to_owned());
            }
        } else if config.get_hosts().is_empty() || !config.get_hosts().iter().all(named) {
            return Err(
                "the server's certificate is verified by the name of its host, which neither a unix socket \
                        nor `hostaddr` alone has; write `host`, or no `sslmode`"
                    .to_owned(),
            );
        }
        Ok(Self { connector: connector(secured, authorities)?, config })
    }

    /// The same server, by the same authorities, to which connections are made in another way.
    pub(crate) fn by(&self, mut config: Config) -> Self {
        config.ssl_mode(self.config.get_ssl_mode());
        Self { config, connector: self.connector() }
    }

    /// How many hosts may be tried for a connection.
    pub(crate) fn hosts(&self) -> usize {
        self.config.get_hosts().len().max(1)
    }

    /// A connection, and what carries it out.
    pub(crate) async fn connect(&self) -> Result<(Client, Driver), BackendError> {
        let connected = self.config.connect(self.connector()).await;
        connected.map_err(|error| self.untrusted(&error).unwrap_or_else(|| failure::before_sending(&error)))
    }

    /// Asks for the end of a statement, on a connection of its own.
    pub(crate) async fn cancel(&self, statement: &CancelToken) -> Result<(), Error> {
        statement.cancel_query(self.connector()).await
    }

    #[cfg_attr(not(feature = "postgres-tls"), allow(clippy::clone_on_copy, reason = "as with the feature"))]
    fn connector(&self) -> Connector {
        self.connector.clone()
    }

    /// That TLS was not to be had, which another try does not change.
    #[cfg(feature = "postgres-tls")]
    fn untrusted(&self, error: &Error) -> Option<BackendError> {
        if self.config.get_ssl_mode() != SslMode::Require {
            return None;
        }
        let source = std::error::Error::source(error)?;
        // The driver has no other way to tell.
        let wrong = if source.to_string() == "server does not support TLS" {
            "it does not speak TLS, which `sslmode` asks for; set `ssl = on` there, or have a pooler in between \
             speak it"
                .to_owned()
        } else {
            tls::wrong_with_server(source)?
        };
        Some(BackendError::not_applied(format!("no TLS with PostgreSQL: {wrong}")).permanent())
    }

    #[cfg(not(feature = "postgres-tls"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    fn untrusted(&self, _error: &Error) -> Option<BackendError> {
        None
    }
}

/// What secures connections. It is not used for those in clear text, and would trust nobody.
#[cfg(feature = "postgres-tls")]
fn connector(secured: bool, authorities: Option<&Path>) -> Result<Connector, String> {
    let authorities = if secured { Authorities::read(authorities)? } else { Authorities::none() };
    let mut config = tls::client(authorities)?;
    // For servers that are spoken to in TLS from the first byte.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Connector::new(config))
}

#[cfg(not(feature = "postgres-tls"))]
fn connector(secured: bool, _authorities: Option<&Path>) -> Result<Connector, String> {
    if secured {
        return Err(
            "`sslmode` asks for TLS, which lockrt has with its feature `postgres-tls`; add it to the \
                    dependency in Cargo.toml"
                .to_owned(),
        );
    }
    Ok(tokio_postgres::NoTls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str, authorities: Option<&Path>) -> String {
        Server::new(url.parse().unwrap(), authorities).err().unwrap()
    }

    #[test]
    fn clear_text_is_for_those_alone_that_ask_for_nothing_else() {
        let server = Server::new("postgres://h".parse().unwrap(), None).unwrap();
        assert_eq!(server.config.get_ssl_mode(), SslMode::Disable);
        for url in ["postgres://h?channel_binding=require", "postgres://h?sslnegotiation=direct"] {
            assert!(refusal(url, None).contains("say nothing without TLS"), "{url}");
        }
        let said = refusal("postgres://h", Some(Path::new("/ca.pem")));
        assert!(said.contains("say nothing without TLS"), "{said}");
    }

    #[test]
    fn a_host_without_a_name_cannot_be_verified() {
        for url in [
            "postgres:///d?sslmode=require&host=/run/postgresql",
            "postgres://h/d?sslmode=require&host=/run/postgresql",
            "postgres:///d?sslmode=require&hostaddr=127.0.0.1",
        ] {
            assert!(refusal(url, None).contains("verified by the name of its host"), "{url}");
        }
    }

    #[cfg(not(feature = "postgres-tls"))]
    #[test]
    fn without_the_feature_tls_is_refused_by_its_name() {
        let said = refusal("postgres://h?sslmode=require", None);
        assert!(said.contains("lockrt has with its feature `postgres-tls`"), "{said}");
    }

    #[cfg(feature = "postgres-tls")]
    #[test]
    fn a_file_without_usable_certificates_is_refused_with_the_reason() {
        let directory = std::env::temp_dir().join(format!("lockrt-authorities-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, content, reason) in [
            ("missing", None, "cannot be read"),
            ("empty", Some(""), "has no certificate in it"),
            ("key", Some("-----BEGIN CERTIFICATE-----\n!"), "is no PEM"),
            ("broken", Some(broken), "a certificate in it that is none"),
        ] {
            let path = directory.join(name);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let said = refusal("postgres://h?sslmode=require", Some(&path));
            assert!(said.contains(reason) && said.contains(name), "{said}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
