//! A real Redis server of a test's own.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockrt::Redis;
use lockrt::conformance::{Service, Stored};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use rustix::process::{Pid, Signal, kill_process};

use crate::SteppedClock;

const START: Duration = Duration::from_secs(10);

/// A `redis-server` on a free loopback port, empty and without persistence, killed on drop.
///
/// The `redis-test` crate starts servers too, but can neither stop one and start it again on its
/// port nor say what to install, and its stable version follows the driver's release candidate.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    port: u16,
    directory: PathBuf,
    options: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further command-line options, such as `["--maxmemory", "10mb"]`.
    #[must_use]
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_in(&[], options)
    }

    /// Starts a server whose wall clock is `clock`.
    #[must_use]
    pub fn start_on(clock: &SteppedClock) -> Self {
        Self::start_in(&clock.environment(), &[])
    }

    fn start_in(environment: &[(&'static str, PathBuf)], options: &[&str]) -> Self {
        static SERVERS: AtomicU64 = AtomicU64::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("lockrt-redis-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory for temporary files is writable");
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        // Between choosing a port and using it somebody else may take it.
        for _ in 0..10 {
            let port = free_port();
            let process = spawn(port, &directory, &options, environment);
            let mut server = Self {
                process,
                port,
                directory: directory.clone(),
                options: options.clone(),
                environment: environment.to_vec(),
            };
            if server.answers() {
                return server;
            }
        }
        panic!("redis-server has exited ten times in a row; run it by hand to see why");
    }

    /// Its URL, without a password.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server at once, as a crash would.
    pub fn kill(&mut self) {
        self.resume();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts the server again on its port, after killing it; its data is gone.
    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(self.port, &self.directory, &self.options, &self.environment);
        assert!(self.answers(), "redis-server has not come back on its port");
    }

    /// Lets a paused server go on, and starts one that has ended again.
    pub fn revive(&mut self) {
        self.resume();
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            self.restart();
        }
    }

    /// Stops the server's process; its connections stay open and silent.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// A connection of the test's own.
    pub async fn raw(&self) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(START))
            .set_response_timeout(Some(START));
        let client = Client::open(self.url()).expect("the URL is well-formed");
        client.get_multiplexed_async_connection_with_config(&config).await.expect("the server is up")
    }

    /// Whether it has this key.
    pub async fn has(&self, key: &str) -> bool {
        redis::cmd("EXISTS").arg(key).query_async(&mut self.raw().await).await.expect("EXISTS answers")
    }

    /// How often each command has been asked for, refused calls included, by its name in lower case.
    pub async fn commandstats(&self) -> HashMap<String, u64> {
        let mut raw = self.raw().await;
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut raw).await.expect("INFO answers");
        stats.lines().filter_map(asked).collect()
    }

    /// How many locks are held, or offered to somebody.
    pub async fn locks(&self) -> usize {
        let keys = self.keys("*").await;
        keys.iter().filter(|key| !key.ends_with("}:fencing") && !key.ends_with("}:queue")).count()
    }

    /// How many claims have a place in a queue.
    pub async fn queued(&self) -> u64 {
        let queues = self.keys("*}:queue").await;
        if queues.is_empty() {
            // The driver refuses a pipeline without a command.
            return 0;
        }
        let mut places = redis::pipe();
        for queue in queues {
            places.cmd("ZCARD").arg(queue);
        }
        let places: Vec<u64> = places.query_async(&mut self.raw().await).await.expect("ZCARD answers");
        places.iter().sum()
    }

    async fn keys(&self, pattern: &str) -> Vec<String> {
        redis::cmd("KEYS").arg(pattern).query_async(&mut self.raw().await).await.expect("KEYS answers")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the server answers; false if its process has ended.
    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + START;
        loop {
            if ping(self.port).is_ok() {
                return true;
            }
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return false;
            }
            assert!(Instant::now() < deadline, "redis-server has not answered within {START:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Service for RedisServer {
    type Client = Redis;

    async fn client(&self) -> Redis {
        Redis::from_url(&self.url()).expect("the URL is well-formed")
    }

    async fn stored(&self) -> Stored {
        let script = "
            local locks, endless, fences = 0, 0, 0
            for _, key in ipairs(redis.call('KEYS', '*')) do
              if string.find(key, '}:fencing$') then
                fences = fences + 1
              else
                locks = locks + 1
                if redis.call('PTTL', key) == -1 then endless = endless + 1 end
              end
            end
            return {locks, endless, fences}";
        let mut ask = redis::cmd("EVAL");
        let mut raw = self.raw().await;
        let (per_key, endless, shared) =
            ask.arg(script).arg(0).query_async(&mut raw).await.expect("the server is up");
        Stored { per_key, endless, shared }
    }
}

fn spawn(
    port: u16,
    directory: &std::path::Path,
    options: &[String],
    environment: &[(&'static str, PathBuf)],
) -> Child {
    let mut command = Command::new("redis-server");
    // This process may be on a stepped clock itself.
    SteppedClock::take_off(&mut command);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(directory).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(process) => process,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("redis-server is missing; install it: apt-get install redis-server")
        }
        Err(error) => panic!("redis-server cannot be started: {error}"),
    }
}

/// Reads `cmdstat_get:calls=3,usec=7,..,rejected_calls=1,failed_calls=0`.
fn asked(line: &str) -> Option<(String, u64)> {
    let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let count = |field: &str| {
        fields.split(',').find_map(|f| f.strip_prefix(field)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    Some((name.to_owned(), count("calls")? + count("rejected_calls").unwrap_or_default()))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

fn ping(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    // Any answer will do: a server with a password refuses, and is up.
    Ok(())
}
