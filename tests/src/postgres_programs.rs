//! The programs of PostgreSQL, who runs them and on which data.

use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::getuid;

use crate::SteppedClock;

/// Where servers keep their data: in memory where there is plenty of it, since a disk takes seconds for what
/// a server writes before it answers.
fn quick() -> PathBuf {
    const PLENTY: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    if free > PLENTY { memory.to_owned() } else { std::env::temp_dir() }
}

/// An empty directory of the server's user.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static DIRECTORIES: AtomicU64 = AtomicU64::new(0);
    let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
    let directory = quick().join(format!("lockrt-{name}-{}-{number}", std::process::id()));
    fs::create_dir_all(&directory).expect("the directory for temporary files is writable");
    if let Some(user) = Unprivileged::needed() {
        chown(&directory, Some(user.uid), Some(user.gid)).expect("root may give it away");
    }
    directory
}

/// Writes a file that the server's user alone may read.
pub(crate) fn write_private(path: &Path, content: &str) {
    fs::write(path, content).expect("the directory is writable");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("it is ours");
    if let Some(user) = Unprivileged::needed() {
        chown(path, Some(user.uid), Some(user.gid)).expect("root may give it away");
    }
}

/// Shows the log in the directory of a server to whoever looks why a test has failed.
#[allow(clippy::print_stderr, reason = "beside what the test says of its failure")]
pub(crate) fn show_log(directory: &Path) {
    if std::thread::panicking() {
        eprintln!("{}", fs::read_to_string(directory.join("log")).unwrap_or_default());
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// Who runs the servers, if the tests are root's.
#[derive(Clone, Copy, Debug)]
struct Unprivileged {
    uid: u32,
    gid: u32,
}

impl Unprivileged {
    /// `postgres`, whom Debian's package makes.
    fn needed() -> Option<Self> {
        if !getuid().is_root() {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").expect("there is a list of users");
        let fields = users.lines().find_map(|line| line.strip_prefix("postgres:"));
        let fields: Option<Vec<&str>> = fields.map(|fields| fields.split(':').collect());
        let id = |place: usize| fields.as_ref().and_then(|fields| fields.get(place)?.parse().ok());
        match (id(1), id(2)) {
            (Some(uid), Some(gid)) => Some(Self { uid, gid }),
            _ => panic!("there is no user `postgres`; install PostgreSQL: apt-get install postgresql"),
        }
    }
}

/// A command of PostgreSQL or around it, as a user who may run it.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = match Unprivileged::needed() {
        None => Command::new(program),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={}", user.uid)).arg(format!("--regid={}", user.gid));
            command.arg("--clear-groups").arg(program);
            command
        }
    };
    // This process may be on a stepped clock itself.
    SteppedClock::take_off(&mut command);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A program of PostgreSQL: beside the others of the newest version that is installed, or in the PATH.
pub(crate) fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|v| v.to_str()?.parse::<u32>().ok());
    let newest = versions.map(|entry| entry.path()).max_by_key(|path| number(path));
    match newest.map(|version| version.join("bin").join(name)).filter(|program| program.exists()) {
        Some(program) => program,
        None => PathBuf::from(name),
    }
}

pub(crate) fn spawn(
    port: u16,
    directory: &Path,
    options: &[String],
    environment: &[(&'static str, PathBuf)],
) -> Child {
    let mut command = command(&program("postgres"));
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.arg("-D").arg(directory.join("data")).arg("-p").arg(port.to_string()).arg("-k").arg(directory);
    for option in options {
        command.arg("-c").arg(option);
    }
    command.stderr(File::create(directory.join("log")).expect("the directory is writable"));
    started(command.spawn())
}

pub(crate) fn started<T>(started: std::io::Result<T>) -> T {
    match started {
        Ok(started) => started,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("PostgreSQL is missing; install it: apt-get install postgresql")
        }
        Err(error) => panic!("PostgreSQL cannot be started: {error}"),
    }
}

/// Data with a role and a database `app`, made once for all tests of this machine and user.
pub(crate) fn template() -> PathBuf {
    let postgres = program("postgres");
    let version = started(command(&postgres).arg("--version").stdout(Stdio::piped()).output());
    let version: String =
        String::from_utf8_lossy(&version.stdout).chars().filter(char::is_ascii_digit).collect();
    let user = getuid().as_raw();
    let template = quick().join(format!("lockrt-postgres-template-{version}-{user}"));
    if template.exists() {
        return template;
    }
    let directory = scratch("template");
    let made = directory.join("data");
    let mut initdb = command(&program("initdb"));
    initdb.arg("-D").arg(&made).args(["-U", "postgres", "-A", "trust", "-E", "UTF8"]);
    initdb.args(["--no-locale", "--no-sync", "--wal-segsize=1"]);
    assert!(started(initdb.status()).success(), "initdb has failed; run it by hand to see why");
    // One database is enough, and three fewer are to be copied for each test.
    let own =
        ["CREATE ROLE app LOGIN", "ALTER DATABASE postgres RENAME TO app", "ALTER DATABASE app OWNER TO app"];
    alone(&postgres, &made, "template1", &own);
    let spare = [
        "UPDATE pg_database SET datistemplate = false",
        "DROP DATABASE template0",
        "DROP DATABASE template1",
    ];
    alone(&postgres, &made, "app", &spare);
    // Another test may have made it meanwhile.
    let _ = fs::rename(&made, &template);
    let _ = fs::remove_dir_all(&directory);
    template
}

/// Runs statements without a server.
fn alone(postgres: &Path, data: &Path, database: &str, statements: &[&str]) {
    let mut single = command(postgres);
    single.args(["--single", "-j", "-c", "fsync=off", "-D"]).arg(data).arg(database).stdin(Stdio::piped());
    let mut single = started(single.spawn());
    let mut input = single.stdin.take().expect("it is piped");
    // With `-j` an empty line ends a statement.
    let text = statements.join(";\n\n") + ";\n\n";
    input.write_all(text.as_bytes()).expect("postgres reads");
    drop(input);
    assert!(single.wait().expect("it is ours").success(), "postgres --single has failed");
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "the data cannot be copied");
}
