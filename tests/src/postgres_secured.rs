//! A PostgreSQL server that speaks TLS.

use lockrt::Postgres;

use crate::{Authority, Identity, PostgresServer};

/// Nobody but its superuser comes in without TLS, and nobody else without a password.
const RULES: &str = "hostssl all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n";

/// A [`PostgresServer`] whose role `app` comes in by TLS and a password only, with an authority that nobody
/// knows but by its file.
#[derive(Debug)]
pub struct SecuredPostgres {
    server: PostgresServer,
    authority: Authority,
}

impl SecuredPostgres {
    /// The name in its certificate.
    pub const HOST: &str = "db.lockrt.test";

    /// Starts it, and makes the tables of the locks over TLS.
    pub async fn start() -> Self {
        let secured = Self::start_as(|authority| authority.identity(Self::HOST)).await;
        let client = Postgres::from_url(&secured.url()).expect("the URL is well-formed");
        client.migrate().await.expect("the tables can be made");
        secured
    }

    /// Starts it with another certificate, and without tables.
    pub async fn start_as(identity: impl FnOnce(&Authority) -> Identity) -> Self {
        let authority = Authority::create();
        let server = PostgresServer::start_secured(&identity(&authority), RULES).await;
        let password = "ALTER ROLE app PASSWORD 'open sesame'";
        server.raw().await.batch_execute(password).await.expect("a superuser may");
        Self { server, authority }
    }

    /// The server itself.
    #[must_use]
    pub fn server(&self) -> &PostgresServer {
        &self.server
    }

    /// Who has signed its certificate.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A URL with all that it takes.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.server.port())
    }

    /// The same by another port.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        let file = self.authority.file();
        format!("{}&sslmode=verify-full&sslrootcert={}", self.url_for(Self::HOST, port), file.display())
    }

    /// A URL for a host by the name that is given, without a word of TLS.
    #[must_use]
    pub fn url_for(&self, host: &str, port: u16) -> String {
        format!("postgres://app:open%20sesame@{host}:{port}/app?hostaddr=127.0.0.1")
    }
}
