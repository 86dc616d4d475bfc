//! The service: locks behind a socket, with levers for those who test it.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

/// A running service. It ends on drop.
#[derive(Debug)]
pub struct Server {
    socket: PathBuf,
    shared: Arc<Shared>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    levers: watch::Sender<Levers>,
    releases: watch::Sender<u64>,
}

/// What is done to the service on purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Levers {
    paused: bool,
    slow: Duration,
    reply_lost: bool,
    no_wake_ups: bool,
    clock_ahead: Duration,
}

#[derive(Debug, Default)]
struct Desk {
    held: HashMap<String, Held>,
    last_token: u64,
}

#[derive(Debug)]
struct Held {
    owner: String,
    until: Instant,
}

impl Server {
    /// Starts an empty service behind this socket.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    pub fn start(socket: impl Into<PathBuf>) -> io::Result<Self> {
        let (socket, shared) = (socket.into(), Arc::<Shared>::default());
        let accepting = accept(&socket, &shared)?;
        Ok(Self { socket, shared, accepting: Mutex::new(Some(accepting)) })
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// How many locks are held at present.
    #[must_use]
    pub fn held(&self) -> usize {
        let now = Instant::now();
        self.shared.desk().held.values().filter(|held| now < held.until).count()
    }

    /// Ends like after a crash: nobody is answered, and nothing is kept.
    pub fn crash(&self) {
        if let Some(accepting) = self.accepting().take() {
            accepting.abort();
        }
        let _ = std::fs::remove_file(&self.socket);
        *self.shared.desk() = Desk::default();
    }

    /// Starts again after a crash, and undoes all else that was done.
    ///
    /// # Errors
    ///
    /// The socket cannot be made.
    pub fn heal(&self) -> io::Result<()> {
        self.shared.levers.send_replace(Levers::default());
        let mut accepting = self.accepting();
        if accepting.is_none() {
            *accepting = Some(accept(&self.socket, &self.shared)?);
        }
        Ok(())
    }

    /// Answers nothing until it is healed.
    pub fn pause(&self) {
        self.shared.levers.send_modify(|levers| levers.paused = true);
    }

    /// Answers this much later.
    pub fn slow_down(&self, by: Duration) {
        self.shared.levers.send_modify(|levers| levers.slow = by);
    }

    /// Breaks the connection of the next request, once it is carried out.
    pub fn lose_reply(&self) {
        self.shared.levers.send_modify(|levers| levers.reply_lost = true);
    }

    /// Lets nobody know that a key is free.
    pub fn lose_wake_ups(&self) {
        self.shared.levers.send_modify(|levers| levers.no_wake_ups = true);
    }

    /// Sets the wall clock ahead.
    pub fn step_clock(&self, by: Duration) {
        self.shared.levers.send_modify(|levers| levers.clock_ahead = by);
    }

    fn accepting(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.accepting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn levers(&self) -> Levers {
        *self.levers.borrow()
    }

    /// The answer to one request.
    async fn answer(&self, request: &str) -> Option<String> {
        let fields: Vec<&str> = request.trim_end().split('\t').collect();
        let &[verb, key, owner, ttl_ms] = &fields[..] else { return None };
        let ttl = Duration::from_millis(ttl_ms.parse().ok()?);
        Some(match verb {
            "acquire" => self.desk().acquire(key, owner, ttl, self.levers().clock_ahead),
            "renew" => self.desk().renew(key, owner, ttl),
            "release" => {
                let answer = self.desk().release(key, owner);
                self.releases.send_modify(|count| *count += 1);
                answer
            }
            "wait" => self.freed(key).await,
            _ => return None,
        })
    }

    async fn freed(&self, key: &str) -> String {
        let mut releases = self.releases.subscribe();
        loop {
            let until = self.desk().holder(key).map(|held| held.until);
            match until {
                Some(until) => drop(timeout_at(until, releases.changed()).await),
                None if self.levers().no_wake_ups => return pending().await,
                None => return "free".to_owned(),
            }
        }
    }
}

impl Desk {
    /// Who holds the key, if its lease has not ended.
    fn holder(&mut self, key: &str) -> Option<&mut Held> {
        self.held.get_mut(key).filter(|held| Instant::now() < held.until)
    }

    fn acquire(&mut self, key: &str, owner: &str, ttl: Duration, clock_ahead: Duration) -> String {
        if let Some(held) = self.holder(key).filter(|held| held.owner != owner) {
            return format!("held\t{}", (held.until - Instant::now()).as_millis());
        }
        if self.held.len() == self.held.capacity() {
            self.held.retain(|_, held| Instant::now() < held.until);
        }
        let held = Held { owner: owner.to_owned(), until: Instant::now() + ttl };
        self.held.insert(key.to_owned(), held);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + clock_ahead;
        let micros = u64::try_from(since.as_micros()).unwrap_or_default();
        self.last_token = micros.max(self.last_token + 1);
        format!("granted\t{}", self.last_token)
    }

    fn renew(&mut self, key: &str, owner: &str, ttl: Duration) -> String {
        match self.holder(key).filter(|held| held.owner == owner) {
            Some(held) => {
                held.until = Instant::now() + ttl;
                "extended".to_owned()
            }
            None => "gone".to_owned(),
        }
    }

    fn release(&mut self, key: &str, owner: &str) -> String {
        if self.holder(key).is_none_or(|held| held.owner != owner) {
            return "not held".to_owned();
        }
        self.held.remove(key);
        "freed".to_owned()
    }
}

fn accept(socket: &Path, shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let (listener, shared) = (UnixListener::bind(socket)?, Arc::clone(shared));
    Ok(tokio::spawn(async move {
        // They end with this task.
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.spawn(serve(connection, Arc::clone(&shared)));
            while connections.try_join_next().is_some() {}
        }
    }))
}

async fn serve(connection: UnixStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut connection = BufStream::new(connection);
    loop {
        let mut request = String::new();
        if connection.read_line(&mut request).await? == 0 {
            return Ok(());
        }
        let _ = shared.levers.subscribe().wait_for(|levers| !levers.paused).await;
        let Some(answer) = shared.answer(&request).await else { return Ok(()) };
        if shared.levers.send_if_modified(|levers| std::mem::take(&mut levers.reply_lost)) {
            return Ok(());
        }
        let slow = shared.levers().slow;
        if !slow.is_zero() {
            sleep(slow).await;
        }
        connection.write_all(answer.as_bytes()).await?;
        connection.write_all(b"\n").await?;
        connection.flush().await?;
    }
}
