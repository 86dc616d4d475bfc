//! A stream to the server over TLS.

use std::path::Path;
use std::sync::Arc;

use redis::io::tcp::socket2::SockRef;
use redis::{ConnectionAddr, ConnectionInfo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::backend::redis::failure;
use crate::backend::tls::{self, Authorities};
use crate::error::BackendError;

/// Whom to trust. The library's own TLS would take the cryptography that the process has installed, and end in a
/// panic where that is not clear.
#[derive(Clone)]
pub(super) struct Secured(Arc<ClientConfig>);

impl Secured {
    /// By the authorities in this file, or by those of the system.
    ///
    /// # Errors
    ///
    /// A sentence that says why they are of no use.
    pub(super) fn new(authorities: Option<&Path>) -> Result<Self, String> {
        Ok(Self(Arc::new(tls::client(Authorities::read(authorities)?)?)))
    }

    /// A stream to a server that is the one meant.
    pub(super) async fn stream(&self, info: &ConnectionInfo) -> Result<TlsStream<TcpStream>, BackendError> {
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(BackendError::not_applied("TLS goes over TCP alone").permanent());
        };
        let name = ServerName::try_from(host.clone()).map_err(|_| {
            BackendError::not_applied("the host in the URL is no name that a certificate can have")
                .permanent()
        })?;
        let failed = |error: std::io::Error| match tls::wrong_with_server(&error) {
            Some(wrong) => BackendError::not_applied(format!("no TLS with Redis: {wrong}")).permanent(),
            None => failure::before_sending(&error.into()),
        };
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if let Some(keepalive) = info.tcp_settings().keepalive() {
            SockRef::from(&stream).set_tcp_keepalive(keepalive).map_err(failed)?;
        }
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await.map_err(failed)
    }
}
