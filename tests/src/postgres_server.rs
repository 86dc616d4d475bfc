//! A real PostgreSQL server of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockrt::Postgres;
use lockrt::conformance::{Service, Stored};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::{Client, NoTls};

use crate::postgres_programs::{
    command, copy, free_port, program, scratch, show_log, spawn, started, template, write_private,
};
use crate::{Identity, SteppedClock};

const START: Duration = Duration::from_secs(20);

/// Options of every server. What a test does to processes a disk survives without `fsync`.
const OPTIONS: [&str; 7] = [
    "fsync=off",
    "full_page_writes=off",
    "listen_addresses=127.0.0.1",
    "max_connections=400",
    "shared_buffers=16MB",
    // In its directory, and so deleted with it after a crash.
    "dynamic_shared_memory_type=mmap",
    "log_timezone=UTC",
];

/// A `postgres` on a free loopback port with a database `app` that belongs to a role `app`, killed on drop.
///
/// It runs as an unprivileged user where the tests run as root, since it refuses to do otherwise.
#[derive(Debug)]
pub struct PostgresServer {
    process: Child,
    port: u16,
    directory: PathBuf,
    options: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

impl PostgresServer {
    /// Starts a server, waits until it answers, and makes the tables of the locks.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with further settings, such as `["fsync=on"]`.
    pub async fn start_with(options: &[&str]) -> Self {
        let server = Self::start_in(&[], options).await;
        server.client().await.migrate().await.expect("the tables can be made");
        server
    }

    /// Starts a server without the tables of the locks.
    pub async fn start_empty() -> Self {
        Self::start_in(&[], &[]).await
    }

    /// Starts a server that speaks TLS as `identity` and lets in whom the `rules` of its `pg_hba.conf` name,
    /// without the tables of the locks.
    pub(crate) async fn start_secured(identity: &Identity, rules: &str) -> Self {
        let directory = scratch("postgres");
        copy(&template(), &directory.join("data"));
        identity.write(&directory);
        write_private(&directory.join("rules"), rules);
        let place = directory.display().to_string();
        let options = [
            "ssl=on".to_owned(),
            // The default only since version 14.
            "password_encryption=scram-sha-256".to_owned(),
            format!("ssl_cert_file={place}/server.crt"),
            format!("ssl_key_file={place}/server.key"),
            format!("hba_file={place}/rules"),
        ];
        Self::start_from(directory, &[], &options.each_ref().map(String::as_str)).await
    }

    /// Starts a server whose wall clock is `clock`, and makes the tables of the locks.
    pub async fn start_on(clock: &SteppedClock) -> Self {
        let server = Self::start_in(&clock.environment(), &[]).await;
        server.client().await.migrate().await.expect("the tables can be made");
        server
    }

    async fn start_in(environment: &[(&'static str, PathBuf)], options: &[&str]) -> Self {
        let directory = scratch("postgres");
        copy(&template(), &directory.join("data"));
        Self::start_from(directory, environment, options).await
    }

    /// Starts a server on data that stand in `directory`, which it deletes in the end.
    async fn start_from(
        directory: PathBuf,
        environment: &[(&'static str, PathBuf)],
        options: &[&str],
    ) -> Self {
        let options: Vec<String> = OPTIONS.iter().chain(options).map(ToString::to_string).collect();
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
            if server.answers().await {
                return server;
            }
        }
        let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
        panic!("postgres has exited ten times in a row: {log}");
    }

    /// Starts a standby that follows this server.
    pub async fn standby(&self) -> Self {
        let directory = scratch("postgres");
        let mut backup = command(&program("pg_basebackup"));
        backup
            .args(["-h", "127.0.0.1", "-p"])
            .arg(self.port.to_string())
            .args(["-U", "postgres", "-R", "-c", "fast"]);
        backup.args(["--no-sync", "-X", "stream", "-D"]).arg(directory.join("data"));
        assert!(started(backup.status()).success(), "pg_basebackup has failed; run it by hand to see why");
        Self::start_from(directory, &[], &[]).await
    }

    /// Has a standby hear nothing more of its primary.
    pub async fn stop_following(&self) {
        let raw = self.raw().await;
        raw.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.expect("a superuser may");
        raw.batch_execute("SELECT pg_reload_conf()").await.expect("a superuser may");
        let (receiver, deadline) = ("SELECT FROM pg_stat_wal_receiver", Instant::now() + START);
        while !raw.query(receiver, &[]).await.expect("it answers").is_empty() {
            assert!(Instant::now() < deadline, "the standby follows on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Makes a primary of a standby, and waits until it is one.
    pub async fn promote(&self) {
        self.raw().await.batch_execute("SELECT pg_promote()").await.expect("a superuser may");
    }

    /// Its URL, for the role `app`.
    #[must_use]
    pub fn url(&self) -> String {
        url_at(self.port)
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where its data and its log are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends all its processes at once, as a crash would.
    pub fn kill(&mut self) {
        // The number of a process that has ended may be another one's by now.
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        // The first process goes first: it would start the others again.
        let family = self.family();
        self.signal_all(&family, Signal::KILL);
        let _ = self.process.wait();
        // Their shared memory must be free before another server takes the data.
        let deadline = Instant::now() + START;
        while family[1..].iter().any(|pid| Path::new(&format!("/proc/{pid}/fd/0")).exists()) {
            assert!(Instant::now() < deadline, "processes of postgres have outlived it");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts the server again on its port, after killing it; its data are what they were.
    pub async fn restart(&mut self) {
        self.kill();
        self.process = spawn(self.port, &self.directory, &self.options, &self.environment);
        assert!(self.answers().await, "postgres has not come back on its port");
    }

    /// Lets a paused server go on, and starts one that has ended again.
    pub async fn revive(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            self.restart().await;
        } else {
            self.resume();
        }
    }

    /// Stops all its processes; its connections stay open and silent.
    pub fn pause(&self) {
        self.signal_all(&self.family(), Signal::STOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.signal_all(&self.family(), Signal::CONT);
    }

    /// A connection of the test's own, as superuser in the database `app`.
    pub async fn raw(&self) -> Client {
        let connected = connect(self.port, "postgres", "app").await;
        connected.expect("the server is up")
    }

    /// How many locks are held.
    pub async fn locks(&self) -> usize {
        let held = "SELECT count(*) FROM lockrt_locks WHERE expires_at > clock_timestamp()";
        let row = self.raw().await.query_one(held, &[]).await.expect("the table is there");
        usize::try_from(row.get::<_, i64>(0)).expect("a count is positive")
    }

    /// Ends every session of clients, as an administrator would.
    pub async fn terminate_sessions(&self) {
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
        self.raw().await.execute(others, &[]).await.expect("a superuser may");
    }

    /// Deletes the segment of a server that was killed.
    fn forget_shared_memory(&self) {
        // The seventh line is its key and its number; the file is gone if the server has tidied up.
        let file = fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap_or_default();
        if let Some(number) = file.lines().nth(6).and_then(|line| line.split_ascii_whitespace().nth(1)) {
            let _ = Command::new("ipcrm").args(["-m", number]).stderr(Stdio::null()).status();
        }
    }

    /// Waits until no statement of a client is on its way.
    pub async fn quiet(&self) {
        let busy = "SELECT FROM pg_stat_activity WHERE usename = 'app' AND state <> 'idle'";
        let (raw, deadline) = (self.raw().await, Instant::now() + START);
        while !raw.query(busy, &[]).await.expect("the server is up").is_empty() {
            assert!(Instant::now() < deadline, "statements go on and on");
        }
    }

    /// The processes, the first one first.
    fn family(&self) -> Vec<i32> {
        let first = i32::try_from(self.process.id()).expect("a process has a number");
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(first).chain(children).collect()
    }

    #[allow(clippy::unused_self, reason = "only its own processes")]
    fn signal_all(&self, family: &[i32], signal: Signal) {
        for pid in family.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the server answers; false if its process has ended.
    async fn answers(&mut self) -> bool {
        let deadline = Instant::now() + START;
        loop {
            if connect(self.port, "postgres", "app").await.is_ok() {
                return true;
            }
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return false;
            }
            assert!(Instant::now() < deadline, "postgres has not answered within {START:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Told to end it tidies up; killed it leaves its shared memory behind.
        if matches!(self.process.try_wait(), Ok(None)) {
            self.resume();
            self.signal_all(&self.family()[..1], Signal::QUIT);
        }
        let deadline = Instant::now() + START;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if matches!(self.process.try_wait(), Ok(None)) {
            self.kill();
        }
        self.forget_shared_memory();
        show_log(&self.directory);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Service for PostgresServer {
    type Client = Postgres;

    async fn client(&self) -> Postgres {
        Postgres::from_url(&self.url()).expect("the URL is well-formed")
    }

    async fn stored(&self) -> Stored {
        let counts = "SELECT count(*) FILTER (WHERE expires_at > clock_timestamp()),
            count(*) FILTER (WHERE expires_at = 'infinity'),
            count(*) FILTER (WHERE expires_at <= clock_timestamp()) + (SELECT count(*) FROM lockrt_floor)
            FROM lockrt_locks";
        let row = self.raw().await.query_one(counts, &[]).await.expect("the tables are there");
        let [per_key, endless, shared] =
            [0, 1, 2].map(|column| usize::try_from(row.get::<_, i64>(column)).expect("a count is positive"));
        Stored { per_key, endless, shared }
    }
}

/// The URL of the role `app` at a loopback port.
#[must_use]
pub fn url_at(port: u16) -> String {
    format!("postgres://app@127.0.0.1:{port}/app")
}

/// A connection whose driver is a task of the current runtime.
pub(crate) async fn connect(port: u16, user: &str, database: &str) -> Result<Client, tokio_postgres::Error> {
    let url = format!("postgres://{user}@127.0.0.1:{port}/{database}?connect_timeout=2");
    let (client, driver) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(driver);
    Ok(client)
}
