//! An instance of this service in a process of its own, which can stand still.

use std::env;
use std::io;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::spawn_blocking;
use ureq::Agent;

use crate::chaos::PATIENCE;
use crate::error::StartError;
use crate::reserve::Way;

/// One running instance; killed when dropped, which also ends one that stands still.
#[derive(Debug)]
pub(crate) struct Holder {
    base: String,
    pid: Pid,
    agent: Agent,
    _process: Child,
}

/// What a client sees.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Holder {
    /// Starts this program once more. `stops`: its first reservation stops the process before it writes.
    pub(crate) async fn start(name: &str, way: Way, stops: bool) -> Result<Self, StartError> {
        let mut command = Command::new(env::current_exe()?);
        command.arg(way.name()).args(stops.then_some("--stop-before-write"));
        command.env("PORT", "0").env("INSTANCE", name);
        command.env("RUST_LOG", env::var("RUST_LOG").unwrap_or_else(|_| "error".into()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok()).ok_or("an instance has ended")?;
        let stdout = process.stdout.take().ok_or("stdout is piped")?;
        let mut stdout = BufReader::new(stdout);
        let mut first = String::new();
        stdout.read_line(&mut first).await?;
        // Read on, so that the instance can write on.
        tokio::spawn(async move { tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await });
        let base = first.split_whitespace().find(|word| word.starts_with("http://"));
        let base = base.ok_or("an instance did not start; it says why above")?.to_owned();
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        Ok(Self {
            base,
            pid: Pid::from_raw(pid),
            agent: Agent::new_with_config(config.build()),
            _process: process,
        })
    }

    /// Waits until the process stands still.
    pub(crate) async fn stands_still(&self) -> Result<(), StartError> {
        let pid = self.pid;
        // `WNOWAIT`: an exit is left for its `Child` to see.
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        match spawn_blocking(move || waitid(Id::Pid(pid), flags)).await?? {
            WaitStatus::Stopped(..) => Ok(()),
            other => Err(format!("an instance was to be stopped, and instead: {other:?}").into()),
        }
    }

    /// Lets the process go on where it was.
    pub(crate) fn goes_on(&self) -> io::Result<()> {
        Ok(kill(self.pid, Signal::SIGCONT)?)
    }

    pub(crate) fn put(
        &self,
        path: &str,
        body: Value,
    ) -> impl Future<Output = Result<Answer, StartError>> + use<> {
        let request = self.agent.put(format!("{}{path}", self.base)).content_type("application/json");
        let sent = spawn_blocking(move || request.send(body.to_string()));
        async { Answer::read(sent.await??) }
    }

    /// Asks for `quantity` under the order's name.
    pub(crate) fn reserve(
        &self,
        sku: &str,
        order: &str,
        quantity: u32,
    ) -> impl Future<Output = Result<Answer, StartError>> + use<> {
        self.put(&format!("/stock/{sku}/orders/{order}"), json!({ "quantity": quantity }))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, StartError> {
        let request = self.agent.get(format!("{}{path}", self.base));
        Ok(serde_json::from_str(&Answer::read(spawn_blocking(move || request.call()).await??)?.body)?)
    }
}

impl Answer {
    fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Self, StartError> {
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        Ok(Self {
            status: response.status().as_u16(),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: response.body_mut().read_to_string()?,
        })
    }
}
