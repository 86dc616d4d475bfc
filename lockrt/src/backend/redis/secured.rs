//! A stream to the server over TLS.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use redis::io::tcp::socket2::SockRef;
use redis::{ConnectionAddr, ConnectionInfo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
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
        let failed = |error: io::Error| match tls::wrong_with_server(&error) {
            Some(wrong) => BackendError::not_applied(format!("no TLS with Redis: {wrong}")).permanent(),
            None => failure::before_sending(&error.into()),
        };
        let addresses = tokio::net::lookup_host((host.as_str(), *port)).await.map_err(failed)?;
        let stream = first(addresses).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if let Some(keepalive) = info.tcp_settings().keepalive() {
            SockRef::from(&stream).set_tcp_keepalive(keepalive).map_err(failed)?;
        }
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await.map_err(failed)
    }
}

/// The first connection that can be made to one of these. They are tried at once, as the library does in clear text: one
/// that is silent would else use up the time of those behind it.
async fn first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    for address in addresses {
        attempts.spawn(TcpStream::connect(address));
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    while let Some(ended) = attempts.join_next().await {
        match ended.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// An address that answers nobody any more, and what keeps it so.
    async fn silent() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(1).unwrap();
        let address = full.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            queue.push(stream.unwrap());
        }
        (address, full, queue)
    }

    #[tokio::test]
    async fn an_address_that_is_silent_keeps_none_behind_it_waiting() {
        let (silent, _full, _queue) = silent().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let well = listener.local_addr().unwrap();
        let stream = tokio::time::timeout(Duration::from_millis(900), first([silent, well].into_iter()));
        assert_eq!(stream.await.unwrap().unwrap().peer_addr().unwrap(), well);
    }

    #[tokio::test]
    async fn where_no_address_can_be_reached_that_is_said() {
        assert_eq!(first(std::iter::empty()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let refused = first([gone].into_iter()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
