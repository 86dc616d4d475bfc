//! A program of this crate in a process of its own.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A program that talks by lines, killed on drop.
#[derive(Debug)]
pub struct Program {
    process: Child,
    hears: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts the program at `path`, such as `env!("CARGO_BIN_EXE_holder")`.
    #[must_use]
    pub fn start(path: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("cargo has built the program");
        let hears = process.stdin.take().expect("it is piped");
        let says = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { process, hears, says }
    }

    /// The next line that it prints; waits for it, blocking.
    pub fn says(&mut self) -> String {
        self.says.next().expect("the program says more").expect("it speaks UTF-8")
    }

    /// Sends it a line.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.hears, "{line}").expect("the program listens");
    }

    /// Stops it, as a debugger would; it does not know.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Waits, blocking, until it has stopped itself.
    pub fn stops(&self) {
        let status = waitpid(Some(self.pid()), WaitOptions::UNTRACED).expect("the process is ours");
        assert!(status.is_some_and(|(_, status)| status.stopped()), "the program has ended: {status:?}");
    }

    /// Whether it has stood still since it stopped, and nobody else has let it go on.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        let options = WaitOptions::CONTINUED | WaitOptions::NOHANG;
        waitpid(Some(self.pid()), options).expect("the process is ours").is_none()
    }

    /// Lets it go on after [`stop`](Self::stop).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process is ours");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
