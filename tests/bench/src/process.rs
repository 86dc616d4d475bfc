//! A driver process, as the director sees it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command as Program, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use crate::Result;
use crate::command::Command;
use crate::contestant::{Language, Name};

/// Where the drivers are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) own: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) node_modules: PathBuf,
    pub(crate) peers: PathBuf,
}

/// What a driver is started with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) name: Name,
    /// The processor core that it stays on.
    pub(crate) core: usize,
    pub(crate) clients: usize,
    pub(crate) ttl: Duration,
}

impl Start {
    /// One client on `core`, with a lease that nothing here outlasts.
    pub(crate) fn one(name: Name, core: usize) -> Self {
        Self { name, core, clients: 1, ttl: Duration::from_secs(30) }
    }
}

/// A running driver, killed on drop.
pub(crate) struct Driver {
    name: Name,
    process: Child,
    tells: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    /// Starts a driver and waits until it is ready.
    pub(crate) fn start(programs: &Programs, start: Start, url: &str) -> Result<Self> {
        let mut program = Program::new("taskset");
        program.arg("-c").arg(start.core.to_string()).args(arguments(programs, start, url));
        if start.name.language() == Language::JavaScript {
            program.env("NODE_PATH", &programs.node_modules);
        }
        Self::spawn(program, start.name)
    }

    /// Starts a driver under callgrind, whose count ends up in `log`.
    pub(crate) fn counted(
        programs: &Programs,
        start: Start,
        url: &str,
        log: &std::path::Path,
    ) -> Result<Self> {
        let mut program = Program::new("valgrind");
        program.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        program.arg(format!("--log-file={}", log.display())).args(arguments(programs, start, url));
        Self::spawn(program, start.name)
    }

    fn spawn(mut program: Program, name: Name) -> Result<Self> {
        let mut process = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{:?} cannot be started: {error}", program.get_program()))?;
        let tells = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().ok_or("a driver has an output")?);
        let mut driver = Self { name, process, tells, answers };
        let ready: String = driver.answer()?;
        if ready == "ready" { Ok(driver) } else { Err(format!("{}: {ready}", name.word()).into()) }
    }

    pub(crate) fn tell(&mut self, command: Command) -> Result<()> {
        let tells = self.tells.as_mut().ok_or("the driver has been told to end")?;
        writeln!(tells, "{command}")?;
        tells.flush()?;
        Ok(())
    }

    pub(crate) fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("the driver of {} has ended", self.name.title()).into());
        }
        Ok(serde_json::from_str(&line).map_err(|error| format!("{}: {error}: {line}", self.name.word()))?)
    }

    pub(crate) fn ask<T: DeserializeOwned>(&mut self, command: Command) -> Result<T> {
        self.tell(command)?;
        self.answer()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Lets it end in order.
    pub(crate) fn finish(mut self) -> Result<()> {
        drop(self.tells.take());
        self.process.wait()?;
        Ok(())
    }

    /// Stops it, or lets it go on.
    pub(crate) fn freeze(&self, stop: bool) -> Result<()> {
        let pid =
            i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).ok_or("a driver has a pid")?;
        kill_process(pid, if stop { Signal::STOP } else { Signal::CONT })?;
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program and its arguments.
fn arguments(programs: &Programs, start: Start, url: &str) -> Vec<std::ffi::OsString> {
    let word = start.name.word();
    let mut line = match start.name.language() {
        Language::Rust => vec![programs.own.clone().into(), "drive".into(), word.into()],
        Language::Python => {
            vec![programs.python.clone().into(), programs.peers.join(format!("{word}.py")).into()]
        }
        Language::JavaScript => vec!["node".into(), programs.peers.join(format!("{word}.js")).into()],
    };
    let (clients, ttl_ms) = (start.clients.to_string(), start.ttl.as_millis().to_string());
    line.extend([url.into(), clients.into(), ttl_ms.into()]);
    line
}
