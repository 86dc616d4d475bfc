//! A proxy on loopback that misbehaves on purpose.

mod carrying;
mod control;
mod script;
mod toxic;

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use control::{Control, Shared, locked};
pub use script::Step;
pub use toxic::{End, Fault, Toxic, Way};

/// A TCP proxy in front of a loopback port. It ends on drop, and its connections with it.
///
/// A fault, a delay, toxics and a script may be in force at once; they add up. The same seed gives
/// the same delays to the same pieces of the same connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    control: Shared,
    cuts: watch::Sender<()>,
    target: watch::Sender<u16>,
    acceptor: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of `target`; `seed` decides its random delays.
    pub async fn start(target: u16, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let control = Arc::new(Mutex::new(Control::new(seed)));
        let (cuts, cut) = watch::channel(());
        let (target, leads_to) = watch::channel(target);
        let acceptor = tokio::spawn(accept(listener, leads_to, Arc::clone(&control), cut));
        Self { port, control, cuts, target, acceptor }
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

    /// Sets what it does from now on, also to connections that are open, in place of the last fault.
    pub fn set(&self, fault: Fault) {
        locked(&self.control).set(fault);
    }

    /// Delays every piece of data by a random time in this range of milliseconds, each direction of
    /// each connection by itself.
    pub fn delay(&self, ms: Range<u64>) {
        locked(&self.control).delay(&ms);
    }

    /// Adds toxics, also for connections that are open.
    pub fn add(&self, toxics: impl IntoIterator<Item = Toxic>) {
        locked(&self.control).add(toxics);
    }

    /// Plays a sequence of faults from now on, in place of the last one; nothing follows it.
    pub fn play(&self, steps: impl IntoIterator<Item = Step>) {
        locked(&self.control).play(steps.into_iter().collect());
    }

    /// Ends every fault, delay, toxic and script.
    pub fn clear(&self) {
        locked(&self.control).clear();
    }

    /// Cuts all connections that are open, both ways.
    pub fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// Leads new connections to another port; those that are open stay where they are.
    pub fn lead_to(&self, target: u16) {
        self.target.send_replace(target);
    }

    /// How many connections it has accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        locked(&self.control).accepted()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        // The connections end with the sender of cuts.
    }
}

async fn accept(
    listener: TcpListener,
    target: watch::Receiver<u16>,
    control: Shared,
    cut: watch::Receiver<()>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let Some(connection) = locked(&control).accept() else { continue };
        let (target, control, mut cut) = (*target.borrow(), Arc::clone(&control), cut.clone());
        cut.mark_unchanged();
        tokio::spawn(async move {
            if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await {
                carrying::carry(client, server, connection, control, cut).await;
            }
        });
    }
}
