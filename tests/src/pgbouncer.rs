//! A real PgBouncer of a test's own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::Identity;
use crate::postgres_programs::{command, free_port, scratch, show_log};
use crate::postgres_server::connect;

const START: Duration = Duration::from_secs(10);

/// A `pgbouncer` in transaction mode on a free loopback port, killed on drop.
#[derive(Debug)]
pub struct PgBouncer {
    process: Child,
    port: u16,
    directory: PathBuf,
}

impl PgBouncer {
    /// Starts one before the server at a loopback port, and waits until it answers.
    pub async fn start(server: u16) -> Self {
        Self::start_in(scratch("pgbouncer"), server, "").await
    }

    /// Starts one that speaks TLS as `identity`, with the clients that ask for it.
    pub async fn start_secured(server: u16, identity: &Identity) -> Self {
        let directory = scratch("pgbouncer");
        identity.write(&directory);
        let place = directory.display();
        let settings = format!(
            "client_tls_sslmode = allow\nclient_tls_cert_file = {place}/server.crt\n\
             client_tls_key_file = {place}/server.key\n"
        );
        Self::start_in(directory, server, &settings).await
    }

    async fn start_in(directory: PathBuf, server: u16, further: &str) -> Self {
        for _ in 0..10 {
            let port = free_port();
            let mut bouncer = Self {
                process: spawn(&directory, server, port, further),
                port,
                directory: directory.clone(),
            };
            if bouncer.answers().await {
                return bouncer;
            }
        }
        panic!("pgbouncer has exited ten times in a row; run it by hand to see why");
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Has it leave every connection to the server at the end of its transaction, and with it all that the
    /// session has kept.
    pub async fn reconnect(&self) {
        let console = connect(self.port, "app", "pgbouncer").await.expect("the console answers");
        console.batch_execute("RECONNECT").await.expect("an administrator may");
    }

    async fn answers(&mut self) -> bool {
        let deadline = Instant::now() + START;
        loop {
            if connect(self.port, "app", "app").await.is_ok() {
                return true;
            }
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return false;
            }
            assert!(Instant::now() < deadline, "pgbouncer has not answered within {START:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        show_log(&self.directory);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn spawn(directory: &Path, server: u16, port: u16, further: &str) -> Child {
    let settings = format!(
        "[databases]\n* = host=127.0.0.1 port={server} user=app\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\nadmin_users = app\npool_mode = transaction\ndefault_pool_size = 20\nmax_client_conn = 1000\n\
         server_login_retry = 0.2\nserver_connect_timeout = 5\nlogfile = {}\n{further}",
        directory.join("log").display()
    );
    let file = directory.join("pgbouncer.ini");
    std::fs::write(&file, settings).expect("the directory is writable");
    // Debian keeps it where only root looks.
    let debian = Path::new("/usr/sbin/pgbouncer");
    let program = if debian.exists() { debian } else { Path::new("pgbouncer") };
    match command(program).arg("-q").arg(file).spawn() {
        Ok(process) => process,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("pgbouncer is missing; install it: apt-get install pgbouncer")
        }
        Err(error) => panic!("pgbouncer cannot be started: {error}"),
    }
}
