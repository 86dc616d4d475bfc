//! A proxy on loopback that misbehaves on purpose.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Dice;

/// What the proxy does to the connections that pass through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Requests arrive, answers do not; connections stay open.
    DropReplies,
    /// Nothing arrives either way; connections stay open, as with a cable pulled out.
    Silence,
    /// Cuts the client off at its next request, once, and delivers that request this much later.
    CutAtRequest {
        /// When the server gets the request.
        deliver_after: Duration,
    },
    /// Cuts the client off when the answer to a request comes, once: applied, never answered.
    CutAtReply,
    /// New connections are closed at once.
    Refuse,
}

/// A TCP proxy in front of a loopback port. It ends on drop, and its connections with it.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    control: Arc<Mutex<Control>>,
    cuts: watch::Sender<()>,
    acceptor: JoinHandle<()>,
}

#[derive(Debug)]
struct Control {
    target: u16,
    fault: Fault,
    delay_ms: Range<u64>,
    dice: Dice,
    accepted: u64,
}

type Shared = Arc<Mutex<Control>>;

impl Proxy {
    /// Starts a proxy in front of `target`; `seed` decides its random delays.
    pub async fn start(target: u16, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let control =
            Control { target, fault: Fault::None, delay_ms: 0..0, dice: Dice::new(seed), accepted: 0 };
        let control = Arc::new(Mutex::new(control));
        let (cuts, cut) = watch::channel(());
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&control), cut));
        Self { port, control, cuts, acceptor }
    }

    /// The URL of the Redis server behind it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets what it does from now on, also to connections that are open.
    pub fn set(&self, fault: Fault) {
        locked(&self.control).fault = fault;
    }

    /// Delays every piece of data by a random time in this range of milliseconds, each direction of
    /// each connection by itself.
    pub fn delay(&self, ms: Range<u64>) {
        locked(&self.control).delay_ms = ms;
    }

    /// Leads new connections to another port; those that are open stay where they are.
    pub fn lead_to(&self, target: u16) {
        locked(&self.control).target = target;
    }

    /// Cuts all connections that are open, both ways.
    pub fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// How many connections it has accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        locked(&self.control).accepted
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        // The pumps end with the sender of cuts.
    }
}

fn locked(control: &Shared) -> std::sync::MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, control: Shared, cut: watch::Receiver<()>) {
    while let Ok((client, _)) = listener.accept().await {
        let (refuse, target) = {
            let mut control = locked(&control);
            control.accepted += 1;
            (control.fault == Fault::Refuse, control.target)
        };
        if refuse {
            continue;
        }
        let mut cut = cut.clone();
        cut.mark_unchanged();
        tokio::spawn(carry(client, target, Arc::clone(&control), cut));
    }
}

/// Carries one connection until either side, a cut or a fault ends it.
async fn carry(client: TcpStream, target: u16, control: Shared, mut cut: watch::Receiver<()>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pump(from_client, to_server, Arc::clone(&control), Way::Request);
    let answers = pump(from_server, to_client, control, Way::Answer);
    tokio::pin!(requests, answers);
    let late = tokio::select! {
        late = &mut requests => late,
        _ = &mut answers => None,
        _ = cut.changed() => None,
    };
    if let Some(Late { to_server, request, after }) = late {
        tokio::spawn(deliver(to_server, request, after));
    }
}

/// A request that the server gets after its client has been cut off.
struct Late {
    to_server: OwnedWriteHalf,
    request: Vec<u8>,
    after: Duration,
}

async fn deliver(mut to_server: OwnedWriteHalf, request: Vec<u8>, after: Duration) {
    sleep(after).await;
    let _ = to_server.write_all(&request).await;
    // Closing at once could discard what the server has not read yet.
    sleep(Duration::from_millis(500)).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Request,
    Answer,
}

/// What happens to one piece of data.
enum Fate {
    Pass(Duration),
    Drop,
    Cut,
    Late(Duration),
}

fn fate(control: &Shared, way: Way) -> Fate {
    let mut control = locked(control);
    match (control.fault.clone(), way) {
        (Fault::DropReplies, Way::Answer) | (Fault::Silence, _) => Fate::Drop,
        (Fault::CutAtReply, Way::Answer) => {
            control.fault = Fault::None;
            Fate::Cut
        }
        (Fault::CutAtRequest { deliver_after }, Way::Request) => {
            control.fault = Fault::None;
            Fate::Late(deliver_after)
        }
        _ => {
            let range = control.delay_ms.clone();
            Fate::Pass(Duration::from_millis(control.dice.within(range)))
        }
    }
}

async fn pump(mut from: OwnedReadHalf, to: OwnedWriteHalf, control: Shared, way: Way) -> Option<Late> {
    let (queue, due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let mut writer = tokio::spawn(write(to, due));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = &mut writer => return None,
        };
        let data = match read {
            Ok(0) | Err(_) => return None,
            Ok(length) => buffer[..length].to_vec(),
        };
        match fate(&control, way) {
            Fate::Pass(delay) => drop(queue.send((Instant::now() + delay, data))),
            Fate::Drop => {}
            Fate::Cut => return None,
            Fate::Late(after) => {
                drop(queue);
                let to_server = writer.await.ok().flatten()?;
                return Some(Late { to_server, request: data, after });
            }
        }
    }
}

/// Writes each piece when it is due, in order; gives its half back when there are no more.
async fn write(
    mut to: OwnedWriteHalf,
    mut due: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
) -> Option<OwnedWriteHalf> {
    while let Some((at, data)) = due.recv().await {
        sleep_until(at).await;
        if to.write_all(&data).await.is_err() {
            return None;
        }
    }
    Some(to)
}
