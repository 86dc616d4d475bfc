//! An example service in a process of its own, and what it answers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use ureq::Agent;

/// Every wait for a condition gives up after this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a process that is not needed any more has for an orderly end.
const END: Duration = Duration::from_secs(2);

/// A running example that has printed where it listens; ended when dropped.
#[derive(Debug)]
pub struct Example {
    base: String,
    agent: Agent,
    process: Child,
}

/// What a service answered.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its `Content-Type`, or nothing.
    pub content_type: String,
    /// Its `Retry-After`.
    pub retry_after: Option<String>,
    /// Its body.
    pub body: String,
}

impl Example {
    /// Runs `command`, which starts an example with `PORT` 0, and waits for the line with its address.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let log = std::env::var("RUST_LOG").unwrap_or_else(|_| "error".into());
        command.env("PORT", "0").env("RUST_LOG", log).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the service cannot be started");
        let mut lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
        let first = lines
            .next()
            .and_then(Result::ok)
            .expect("the service ended before it printed its address; its stderr says why");
        let base = first
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .expect("an address in the first line")
            .to_owned();
        // Read on, so that the service never waits for a full pipe.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        Self { base, agent: Agent::new_with_config(config.build()), process }
    }

    /// POST without a body.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn post(&self, path: &str) -> Result<Answer, ureq::Error> {
        Answer::read(self.agent.post(format!("{}{path}", self.base)).send_empty()?)
    }

    /// PUT with a body in JSON.
    #[must_use]
    pub fn put(&self, path: &str, body: &Value) -> Answer {
        let request = self.agent.put(format!("{}{path}", self.base)).content_type("application/json");
        request.send(body.to_string()).and_then(Answer::read).expect("the service did not answer")
    }

    /// GET.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        let response = self.agent.get(format!("{}{path}", self.base)).call();
        response.and_then(Answer::read).expect("the service did not answer")
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process has a number"), signal).expect("the process is ours");
    }

    /// Waits until its process is stopped.
    pub fn stands_still(&self) {
        let state = format!("/proc/{}/stat", self.process.id());
        let stopped = || fs::read_to_string(&state).ok().filter(|stat| stat.contains(") T "));
        in_time("the process is stopped", stopped);
    }

    /// How its process ended; waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        in_time("the process ends", || self.process.try_wait().expect("the process cannot be waited for"))
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // A script ends what it has started, if it is told to.
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let deadline = Instant::now() + END;
        let told = matches!(self.process.try_wait(), Ok(None))
            && pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        while told && matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Answer {
    fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Self, ureq::Error> {
        let header =
            |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (content_type, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
        Ok(Self {
            status: response.status().as_u16(),
            content_type,
            retry_after,
            body: response.body_mut().read_to_string()?,
        })
    }

    /// Its body.
    ///
    /// # Panics
    ///
    /// If that is no JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

/// The program of the example `package`, built if need be; cargo knows whether anything is left to do.
#[must_use]
pub fn example(package: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", package, "--message-format=json-render-diagnostics"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo cannot be run");
    assert!(built.status.success(), "{package} does not build");
    let messages = String::from_utf8(built.stdout).expect("cargo's messages are UTF-8");
    let executable = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    executable.expect("cargo names the executable that it built")
}

/// Asks until there is an answer, blocking.
///
/// # Panics
///
/// If there is none after twenty seconds; the message says `what` was waited for.
pub fn in_time<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
