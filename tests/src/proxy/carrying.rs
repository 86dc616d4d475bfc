//! How one connection is carried.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown, sockopt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, spawn};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::proxy::control::{Passage, Shared, Then, Verdict, locked};
use crate::proxy::toxic::{End, Way};

/// How long the server's side of a connection that has ended stays open. Closing at once could
/// discard what the server has not read yet.
const LINGER: Duration = Duration::from_millis(500);

/// How often to look whether a stall is over.
const STALL: Duration = Duration::from_millis(2);

/// What a writer is given.
enum Piece {
    Data(Instant, Vec<u8>),
    /// Tells when all before it is written, and this moment has come.
    Flush(Instant, oneshot::Sender<()>),
}

/// Why a connection ends.
enum Ended {
    By(End),
    Late { request: Vec<u8>, by: Duration },
}

/// Carries one connection until either side, a cut or a toxic ends it.
pub(super) async fn carry(
    client: TcpStream,
    server: TcpStream,
    connection: u64,
    control: Shared,
    mut cut: watch::Receiver<()>,
) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client, server) = (Arc::new(client), Arc::new(server));
    let mut requests = Pipe::new(Way::Request, connection, [&client, &server], &control);
    let mut answers = Pipe::new(Way::Answer, connection, [&server, &client], &control);
    let ended = tokio::select! {
        ended = requests.run() => ended,
        ended = answers.run() => ended,
        _ = cut.changed() => Ended::By(End::Close),
    };
    match ended {
        // The writers go on with what is on its way.
        Ended::By(End::Close) => {}
        Ended::By(End::Reset) => {
            for (pipe, side) in [(requests, client), (answers, server)] {
                pipe.writer.abort();
                // Closing it then sends RST in place of FIN.
                let _ = sockopt::set_socket_linger(&*side, Some(Duration::ZERO));
            }
        }
        Ended::Late { request, by } => {
            drop(requests.queue.send(Piece::Data(Instant::now() + by, request)));
        }
    }
}

/// One direction of a connection.
struct Pipe {
    from: Arc<TcpStream>,
    passage: Passage,
    control: Shared,
    queue: mpsc::UnboundedSender<Piece>,
    writer: AbortHandle,
    /// When the next part may be written, where data trickles.
    free_at: Instant,
}

impl Pipe {
    fn new(way: Way, connection: u64, [from, to]: [&Arc<TcpStream>; 2], control: &Shared) -> Self {
        let (queue, due) = mpsc::unbounded_channel();
        let writer = spawn(write(Arc::clone(to), due, way)).abort_handle();
        let passage = Passage::new(way, connection, locked(control).seed());
        let (from, control) = (Arc::clone(from), Arc::clone(control));
        Self { from, passage, control, queue, writer, free_at: Instant::now() }
    }

    /// Carries data until this direction ends, or ends the connection.
    async fn run(&mut self) -> Ended {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let Some(length @ 1..) = read(&self.from, &mut buffer).await else {
                return Ended::By(End::Close);
            };
            while locked(&self.control).stalls(self.passage.way()) {
                sleep(STALL).await;
            }
            let verdict = locked(&self.control).judge(&mut self.passage, length);
            self.pass(&buffer[..verdict.bytes], &verdict);
            match verdict.then {
                Then::GoOn => {}
                Then::End(end) => {
                    self.flush(Instant::now() + verdict.delay).await;
                    return Ended::By(end);
                }
                Then::Late(by) => {
                    self.flush(Instant::now()).await;
                    return Ended::Late { request: buffer[..length].to_vec(), by };
                }
            }
        }
    }

    fn pass(&mut self, data: &[u8], verdict: &Verdict) {
        let due = Instant::now() + verdict.delay;
        let Some((bytes, every)) = verdict.parts else {
            drop(self.queue.send(Piece::Data(due, data.to_vec())));
            return;
        };
        for part in data.chunks(bytes.max(1)) {
            let due = due.max(self.free_at);
            self.free_at = due + every;
            drop(self.queue.send(Piece::Data(due, part.to_vec())));
        }
    }

    /// Waits until everything so far has been written.
    async fn flush(&self, due: Instant) {
        let (told, flushed) = oneshot::channel();
        if self.queue.send(Piece::Flush(due, told)).is_ok() {
            let _ = flushed.await;
        }
    }
}

/// Writes each piece when it is due, in order.
async fn write(to: Arc<TcpStream>, mut due: mpsc::UnboundedReceiver<Piece>, way: Way) {
    while let Some(piece) = due.recv().await {
        match piece {
            Piece::Data(at, data) => {
                sleep_until(at).await;
                if !write_all(&to, &data).await {
                    return;
                }
            }
            Piece::Flush(at, told) => {
                sleep_until(at).await;
                let _ = told.send(());
            }
        }
    }
    if way == Way::Request {
        let _ = shutdown(&*to, Shutdown::Write);
        let mut rest = vec![0; 64 * 1024];
        let _ = timeout(LINGER, async { while let Some(1..) = read(&to, &mut rest).await {} }).await;
    }
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> Option<usize> {
    loop {
        from.readable().await.ok()?;
        match from.try_read(buffer) {
            Ok(length) => return Some(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

async fn write_all(to: &TcpStream, mut data: &[u8]) -> bool {
    while !data.is_empty() {
        if to.writable().await.is_err() {
            return false;
        }
        match to.try_write(data) {
            Ok(written) => data = &data[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}
