//! The Redis server of a workload.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};

use crate::Result;
use crate::monitor::{Count, Monitor};

const START: Duration = Duration::from_secs(10);

/// A server on a free port, pinned to core 0, empty and without persistence; ended on drop.
pub(crate) struct Server {
    process: Child,
    port: u16,
    folder: PathBuf,
    connection: Option<Connection>,
}

/// The work of a server up to some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Processor time, system calls included.
    pub(crate) cpu_us: f64,
    at: Instant,
}

/// What a kind of command has taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) calls: u64,
    pub(crate) us: u64,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let folder = std::env::temp_dir().join(format!("lockrt-bench-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let port_text = port.to_string();
        let options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--maxclients", "4000"];
        let process = Command::new("taskset")
            .args(["-c", "0", "redis-server", "--port", &port_text])
            .args(options)
            .arg("--dir")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = Self { process, port, folder, connection: None };
        let client = redis::Client::open(server.url())?;
        let deadline = Instant::now() + START;
        loop {
            match client.get_connection() {
                Ok(connection) => break server.connection = Some(connection),
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => sleep(Duration::from_millis(5)),
            }
        }
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends a command written with spaces.
    pub(crate) fn send<T: FromRedisValue>(&mut self, line: &str) -> Result<T> {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap_or_default());
        for word in words {
            command.arg(word);
        }
        Ok(command.query(self.connection.as_mut().ok_or("the server has been left")?)?)
    }

    /// The number in a line `name:number` of `INFO section`.
    pub(crate) fn number(&mut self, section: &str, name: &str) -> Result<f64> {
        let info: String = self.send(&format!("INFO {section}"))?;
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or_else(|| format!("INFO {section} has no {name}"))?.trim().parse()?)
    }

    pub(crate) fn work(&mut self) -> Result<Work> {
        let at = Instant::now();
        let cpu = self.number("cpu", "used_cpu_user")? + self.number("cpu", "used_cpu_sys")?;
        Ok(Work { cpu_us: cpu * 1e6, at })
    }

    /// Calls and time of a command so far, by its name in lower case; scripts count with what they call.
    pub(crate) fn spent(&mut self, command: &str) -> Result<Spent> {
        let info: String = self.send("INFO commandstats")?;
        let prefix = format!("cmdstat_{command}:");
        let Some(line) = info.lines().find_map(|line| line.strip_prefix(&prefix)) else {
            return Ok(Spent::default());
        };
        let field = |name: &str| {
            let text = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            text.and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        Ok(Spent { calls: field("calls"), us: field("usec") })
    }

    /// Counts what clients ask from now on. It costs the server, so not where its speed is measured.
    pub(crate) fn count(&self) -> Result<Count> {
        Monitor::open(&self.address())?.count()
    }
}

impl Work {
    /// Processor time since, and the part of real time that it was.
    pub(crate) fn since(&self, before: &Self) -> (f64, f64) {
        let cpu = self.cpu_us - before.cpu_us;
        (cpu, cpu / (self.at - before.at).as_micros().max(1) as f64)
    }
}

impl Spent {
    pub(crate) fn since(self, before: Self) -> Self {
        Self { calls: self.calls - before.calls, us: self.us - before.us }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
