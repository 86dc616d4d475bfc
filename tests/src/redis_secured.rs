//! A Redis server that speaks TLS.

use crate::postgres_programs::free_port;
use crate::{Authority, Identity, RedisServer};

/// A [`RedisServer`] that also speaks TLS, on a port beside its own; with an authority that nobody
/// knows but by its file.
#[derive(Debug)]
pub struct SecuredRedis {
    server: RedisServer,
    authority: Authority,
    port: u16,
}

impl SecuredRedis {
    /// The host in its certificate.
    pub const HOST: &str = "localhost";

    /// Starts it, and waits until it answers.
    #[must_use]
    pub fn start() -> Self {
        Self::start_as(|authority| authority.identity(Self::HOST), &[])
    }

    /// Starts it with another certificate, and further options.
    #[must_use]
    pub fn start_as(identity: impl FnOnce(&Authority) -> Identity, further: &[&str]) -> Self {
        let (authority, port) = (Authority::create(), free_port());
        let file = authority.file();
        let place = file.parent().expect("it is in a directory");
        identity(&authority).write(place);
        let shown = |name: &str| place.join(name).display().to_string();
        let (certificate, key) = (shown("server.crt"), shown("server.key"));
        let (port_text, file) = (port.to_string(), file.display().to_string());
        let mut options = vec!["--tls-port", &port_text, "--tls-auth-clients", "no"];
        options.extend([
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &file,
        ]);
        options.extend(["--user", "app", "on", ">sesame", "~*", "&*", "+@all"]);
        options.extend(further);
        Self { server: RedisServer::start_with(&options), authority, port }
    }

    /// The server itself, in clear text.
    #[must_use]
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// Its port for TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A URL with all that it takes, by whichever port.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        let file = self.authority.file();
        format!("rediss://app:sesame@{}:{port}/1?sslrootcert={}", Self::HOST, file.display())
    }
}
