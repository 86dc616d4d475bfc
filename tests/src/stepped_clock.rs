//! A wall clock that tests can step, for processes that are started on it.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const LIBRARY: &str = "LD_PRELOAD";
const OFFSET: &str = "LOCKRT_CLOCK";

/// A wall clock of its own, for processes in whose environment it stands.
///
/// It is a small library that stands before the system's: time namespaces of Linux leave the wall
/// clock alone, and stepping the machine's would be felt by everybody. Only `CLOCK_REALTIME` is
/// stepped, as by an administrator; the monotonic clocks go on.
#[derive(Debug)]
pub struct SteppedClock {
    library: PathBuf,
    offset: PathBuf,
    /// Whose the files are; none if this clock was put on by somebody else.
    directory: Option<PathBuf>,
}

impl SteppedClock {
    /// A clock that shows the true time.
    ///
    /// # Panics
    ///
    /// If there is no C compiler, which cargo's linking needs too.
    #[must_use]
    pub fn new() -> Self {
        static CLOCKS: AtomicU64 = AtomicU64::new(0);
        let number = CLOCKS.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("lockrt-clock-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory for temporary files is writable");
        let clock = Self {
            library: directory.join("clock.so"),
            offset: directory.join("offset"),
            directory: Some(directory),
        };
        clock.compile();
        std::fs::write(&clock.offset, 0_i64.to_ne_bytes()).expect("the directory is writable");
        clock
    }

    /// The clock that this process was started on, if it was.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let [library, offset] = [LIBRARY, OFFSET].map(std::env::var_os);
        Some(Self { library: library?.into(), offset: offset?.into(), directory: None })
    }

    /// Shows a time that differs from the true one by so many seconds, from now on.
    ///
    /// # Panics
    ///
    /// If the file that the processes look into is gone.
    pub fn differ_by(&self, seconds: i64) {
        let file: File = OpenOptions::new().write(true).open(&self.offset).expect("the clock is running");
        // In place: a file that is cut while it is mapped kills who reads it.
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("the clock can be stepped");
    }

    /// What stands in the environment of a process on this clock.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [(LIBRARY, self.library.clone()), (OFFSET, self.offset.clone())]
    }

    /// Starts `command` on the true clock, whatever this process is on.
    pub fn take_off(command: &mut Command) {
        command.env_remove(LIBRARY).env_remove(OFFSET);
    }

    /// Runs the test of this name once more, in a process of its own on this clock.
    ///
    /// # Panics
    ///
    /// If it fails there.
    pub fn run_again(&self, test: &str) {
        let program = std::env::current_exe().expect("a test has a program");
        let mut command = Command::new(program);
        command.args(["--exact", test, "--nocapture"]).envs(self.environment());
        let ended = command.output().expect("a test can be started again");
        let output = String::from_utf8_lossy(&ended.stdout);
        let told = format!("{output}\n{}", String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success() && output.contains("1 passed"), "on a stepped clock: {told}");
    }

    fn compile(&self) {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/stepped_clock.c");
        let mut command = Command::new("cc");
        Self::take_off(&mut command);
        command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o"]).arg(&self.library);
        match command.output() {
            Ok(ended) if ended.status.success() => {}
            Ok(ended) => panic!("{source} does not compile: {}", String::from_utf8_lossy(&ended.stderr)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                panic!("a C compiler is missing; install it: apt-get install gcc")
            }
            Err(error) => panic!("the C compiler cannot be started: {error}"),
        }
    }
}

impl Default for SteppedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SteppedClock {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Seconds since 1970 by this process's wall clock.
///
/// # Panics
///
/// If it is before that.
#[must_use]
pub fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set").as_secs()
}
