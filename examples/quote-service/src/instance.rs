//! Which of the running instances this one is, and how it was told to behave.

use std::env::{self, VarError};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

/// What the page asks for first, and every answer names.
#[derive(Debug, Serialize)]
pub(crate) struct Instance {
    pub(crate) name: String,
    /// The lock service behind the manager: "memory", "redis".
    pub(crate) backend: String,
    /// Base addresses of other instances, for the page to call as well.
    pub(crate) peers: Vec<String>,
    pub(crate) work_ms: u64,
}

impl Instance {
    pub(crate) fn from_env(backend: &str) -> Result<Self, String> {
        let peers = parsed::<String>("PEERS")?.unwrap_or_default();
        Ok(Self {
            name: parsed("INSTANCE")?.unwrap_or_else(host_and_pid),
            backend: backend.to_owned(),
            peers: peers
                .split(',')
                .map(|peer| peer.trim().trim_end_matches('/').to_owned())
                .filter(|peer| !peer.is_empty())
                .collect(),
            work_ms: parsed("WORK_MS")?.unwrap_or(900),
        })
    }

    /// How long one recalculation takes.
    pub(crate) fn work(&self) -> Duration {
        Duration::from_millis(self.work_ms)
    }
}

pub(crate) fn port_from_env() -> Result<u16, String> {
    Ok(parsed("PORT")?.unwrap_or(3_000))
}

/// The variable's value, `None` where it is unset or empty.
fn parsed<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, String> {
    match env::var(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|error| format!("{name}={text} cannot be read: {error}; correct it or unset it")),
        Err(VarError::NotPresent) => Ok(None),
        Err(error @ VarError::NotUnicode(_)) => {
            Err(format!("{name} cannot be read: {error}; correct it or unset it"))
        }
    }
}

fn host_and_pid() -> String {
    let host = env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/etc/hostname")).unwrap_or_default();
    let host = match host.trim() {
        "" => "local",
        host => host,
    };
    format!("{host}:{}", std::process::id())
}
