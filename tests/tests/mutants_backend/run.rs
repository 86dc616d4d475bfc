//! Runs a case of the suite on a backend that may be wrong, and lives.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lockrt::conformance::{Case, Fault, Power, Service, cases, cases_under};
use tokio::runtime::Builder;

/// How long a case may take of real time. Far more than any needs; whoever is stuck has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const QUIET: &str = "a case on a wrong backend";

/// All cases of the suite.
pub(crate) fn all_cases<S: Power>() -> Vec<Case<S>> {
    cases().into_iter().chain(Fault::ALL.into_iter().flat_map(cases_under)).collect()
}

/// How a case ended: nothing, or why it failed.
pub(crate) fn ended<S: Service + 'static>(
    case: Case<S>,
    paused: bool,
    start: impl AsyncFnOnce() -> S + Send + 'static,
) -> Option<String> {
    be_quiet();
    let (sender, receiver) = channel();
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().start_paused(paused).build();
        let runtime = runtime.expect("a runtime can be had");
        let ran = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                let service = start().await;
                case.run(&service).await;
            });
        }));
        // Before the runtime ends: whatever still runs on it is of no interest.
        let _ = sender.send(ran.err().map(|panic| words(&*panic)));
    };
    std::thread::Builder::new().name(QUIET.to_owned()).spawn(run).expect("a thread can be had");
    match receiver.recv_timeout(PATIENCE) {
        Ok(ended) => ended,
        Err(RecvTimeoutError::Timeout) => Some(format!("has not ended within {PATIENCE:?}")),
        Err(RecvTimeoutError::Disconnected) => Some("has ended its thread".to_owned()),
    }
}

/// Panics of these cases are answers, and are not printed.
fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some(QUIET) {
                loud(panic);
            }
        }));
    });
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    text.lines().next().unwrap_or_default().chars().take(140).collect()
}
