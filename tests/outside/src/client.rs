//! The backend: what lockrt asks, said in the service's language.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockrt::{
    Attempt, Backend, BackendError, Capabilities, Claim, FenceStrength, FencingToken, Released, Renewed,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::UnixStream;

const CAPABILITIES: Capabilities =
    Capabilities::new("doorman").fences(FenceStrength::Durable).wakes_on_release();

/// The service counts in 64 bits; no lock needs a century.
const LONGEST_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// As many answers fit into a socket's buffer, so that neither side waits for the other to read.
const CLAIMS_PER_ROUND: usize = 100;

/// A client of the service behind a socket. It connects at first use.
#[derive(Debug)]
pub struct Doorman {
    socket: PathBuf,
    /// Connections on which no answer is outstanding. A call that fails or is dropped takes its
    /// connection with it, so that no later call reads its answer.
    idle: Mutex<Vec<BufStream<UnixStream>>>,
}

impl Doorman {
    /// The service behind this socket. Nothing is sent yet.
    #[must_use]
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<BufStream<UnixStream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends requests of a line each, and gives the line that answers each.
    async fn ask(&self, requests: &[String]) -> Result<Vec<String>, BackendError> {
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            // Nothing has been sent.
            None => {
                BufStream::new(UnixStream::connect(&self.socket).await.map_err(BackendError::not_applied)?)
            }
        };
        // From here on the service may have got it.
        let answers = exchange(&mut connection, requests).await.map_err(BackendError::unknown)?;
        self.idle().push(connection);
        Ok(answers)
    }

    async fn ask_one(&self, request: String) -> Result<String, BackendError> {
        let mut answers = self.ask(&[request]).await?;
        answers.pop().ok_or_else(unexpected)
    }
}

async fn exchange(connection: &mut BufStream<UnixStream>, requests: &[String]) -> io::Result<Vec<String>> {
    for request in requests {
        connection.write_all(request.as_bytes()).await?;
    }
    connection.flush().await?;
    let mut answers = Vec::with_capacity(requests.len());
    for _ in requests {
        let mut line = String::new();
        if connection.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        answers.push(line);
    }
    Ok(answers)
}

/// One request. Keys and owners hold no control characters, so tabs and ends of line are free.
fn request(verb: &str, claim: &Claim) -> String {
    format!("{verb}\t{}\t{}\t{}\n", claim.key().as_str(), claim.owner().wire(), claim.ttl_ms())
}

fn check_ttl(claim: &Claim) -> Result<(), BackendError> {
    if claim.ttl().is_zero() || claim.ttl() > LONGEST_TTL {
        return Err(BackendError::not_applied("a ttl is at least 1 ms and at most 100 years").permanent());
    }
    Ok(())
}

fn unexpected() -> BackendError {
    BackendError::unknown("the lock service gave an answer that its protocol does not have")
}

impl Backend for Doorman {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        check_ttl(claim)?;
        let answer = self.ask_one(request("acquire", claim)).await?;
        let number = |text: &str| text.parse().map_err(|_| unexpected());
        match answer.split_once('\t') {
            Some(("granted", token)) => {
                Ok(Attempt::Granted { fencing: Some(FencingToken::new(number(token)?)) })
            }
            Some(("held", left_ms)) => {
                Ok(Attempt::Held { free_in: Some(Duration::from_millis(number(left_ms)?)) })
            }
            _ => Err(unexpected()),
        }
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let mut answers = Vec::with_capacity(claims.len());
        for claims in claims.chunks(CLAIMS_PER_ROUND) {
            let usable = claims.iter().filter(|claim| check_ttl(claim).is_ok());
            let requests: Vec<String> = usable.map(|claim| request("renew", claim)).collect();
            let mut told = self.ask(&requests).await.map(Vec::into_iter);
            answers.extend(claims.iter().map(|claim| match (check_ttl(claim), &mut told) {
                (Err(error), _) => Renewed::Unknown(error),
                (Ok(()), Err(error)) => Renewed::Unknown(error.clone()),
                (Ok(()), Ok(told)) => match told.next().as_deref() {
                    Some("extended") => Renewed::Extended,
                    Some("gone") => Renewed::Gone,
                    _ => Renewed::Unknown(unexpected()),
                },
            }));
        }
        answers
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        match self.ask_one(request("release", claim)).await?.as_str() {
            "freed" => Ok(Released::Freed),
            "not held" => Ok(Released::NotHeld),
            _ => Err(unexpected()),
        }
    }

    async fn freed(&self, claim: &Claim) {
        // The service answers when the key is free, at once if it is by now. A failure is a false
        // alarm, which is legal; the pause keeps a service that is down from being asked in a circle.
        if self.ask_one(request("wait", claim)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
