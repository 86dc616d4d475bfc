//! What clients send, on its way to a server.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Passes connections on to a port of loopback, and keeps what clients have sent on each of them.
#[derive(Debug)]
pub struct Tap {
    port: u16,
    sent: Sent,
    task: AbortHandle,
}

type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

impl Tap {
    /// Starts it before `target`.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let sent = Sent::default();
        let kept = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                tokio::spawn(pass_on(client, target, Arc::clone(&kept), number));
            }
        });
        Self { port, sent, task: task.abort_handle() }
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What clients have sent, connection by connection.
    #[must_use]
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(client: TcpStream, target: u16, kept: Sent, number: usize) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut buffer = vec![0; 8 << 10];
    while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
        kept.lock().unwrap_or_else(PoisonError::into_inner)[number].extend_from_slice(&buffer[..read]);
        if to_server.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    back.abort();
}
