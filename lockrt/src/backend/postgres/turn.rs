//! One call at a time on a connection to a pooler.
//!
//! A pooler gives the server process to somebody else once it has passed on the last answer that it expects.
//! Of a request that came behind the first one it may have read a half by then, and the other half goes to
//! another server process, into the midst of who knows what.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_postgres::Client;

use crate::error::BackendError;

/// Who may send next. Without a pooler everybody may at any time.
#[derive(Debug)]
pub(super) struct Turns(Option<Arc<Semaphore>>);

impl Turns {
    pub(super) fn new(pooled: bool) -> Self {
        Self(pooled.then(|| Arc::new(Semaphore::new(1))))
    }

    /// Whether somebody sends, or an answer is still on its way that nobody waits for.
    pub(super) fn are_taken(&self) -> bool {
        self.0.as_ref().is_some_and(|turns| turns.available_permits() == 0)
    }

    /// Waits until nobody waits for an answer on this connection. `ended` says that it is given up.
    pub(super) async fn next(
        &self,
        client: &Arc<Client>,
        ended: &Arc<watch::Sender<bool>>,
    ) -> Result<Turn, BackendError> {
        let Some(turns) = &self.0 else { return Ok(Turn(None)) };
        let mut given_up = ended.subscribe();
        let permit = tokio::select! {
            biased;
            _ = given_up.wait_for(|ended| *ended) => None,
            permit = Arc::clone(turns).acquire_owned() => permit.ok(),
        };
        let permit = permit.ok_or_else(|| {
            BackendError::not_applied("the connection to PostgreSQL was given up before this was sent")
        })?;
        let (client, ended) = (Arc::clone(client), Arc::clone(ended));
        Ok(Turn(Some(Line { client, ended, clear: false, _permit: permit })))
    }
}

/// The right to send one statement. A call that is dropped, or whose answer breaks off with an error, leaves it
/// to a task to see the rest of the answer come in.
#[derive(Debug)]
pub(super) struct Turn(Option<Line>);

impl Turn {
    /// The whole answer is here.
    pub(super) fn answered(mut self) {
        if let Some(line) = &mut self.0 {
            line.clear = true;
        }
        self.0 = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(line) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(line.cleared());
        }
    }
}

/// The connection while an answer may be on its way. Dropped before that is here, it is of no more use.
#[derive(Debug)]
struct Line {
    client: Arc<Client>,
    ended: Arc<watch::Sender<bool>>,
    clear: bool,
    _permit: OwnedSemaphorePermit,
}

impl Line {
    /// Asks for nothing, by the one kind of request that is a single message: its answer comes last.
    async fn cleared(mut self) {
        let mut ended = self.ended.subscribe();
        let cleared = tokio::select! {
            answer = self.client.batch_execute("") => answer.is_ok(),
            _ = ended.wait_for(|ended| *ended) => false,
        };
        self.clear = cleared;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.clear {
            self.ended.send_replace(true);
        }
    }
}
