//! Whether a worker's own threads get on: what the machine takes away is not the lock's fault.

use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::record::{Record, now_ns, tell};

/// How long each errand takes on a machine that has time.
const ERRAND: Duration = Duration::from_millis(10);

/// What an errand may take beyond that, in nanoseconds.
const LATE_NS: u64 = 20_000_000;

/// A thread with a runtime of its own, as the keeper of a manager is, that does nothing but wait.
#[derive(Clone, Debug)]
pub(super) struct Witness(mpsc::UnboundedSender<oneshot::Sender<()>>);

impl Witness {
    /// Starts the thread; it ends with its last handle.
    pub(super) fn start() -> std::io::Result<Self> {
        let (errands, mut asked) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
        let runtime = Builder::new_current_thread().enable_time().build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                while let Some(answer) = asked.recv().await {
                    sleep(ERRAND).await;
                    let _ = answer.send(());
                }
            });
        });
        Ok(Self(errands))
    }

    /// Sends the thread on errands from the runtime of the tasks, one after the other, and tells how
    /// long the two of them stood still. It takes the way that an acquire takes.
    pub(super) async fn watch(self) {
        loop {
            let (answer, answered) = oneshot::channel();
            let from_ns = now_ns();
            if self.0.send(answer).is_err() || answered.await.is_err() {
                return;
            }
            let to_ns = now_ns();
            let late_ns = (to_ns - from_ns).saturating_sub(u64::try_from(ERRAND.as_nanos()).unwrap_or(0));
            if late_ns > LATE_NS {
                tell(&Record::Stalled { from_ns: to_ns - late_ns, to_ns });
            }
        }
    }
}
