//! The loop that does what no caller does itself.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::claim::{Claim, Renewed};
use crate::clock::Moment;
use crate::error::BackendError;
use crate::keeper::Woken;
use crate::keeper::desk::Desk;
use crate::keeper::errand::{Answered, Call};
use crate::keeper::foreign::{bounded, tell};
use crate::keeper::ledger::Work;
use crate::keeper::waiters::Waiters;
use crate::observe;
use crate::protocol::keeping::Event;
use crate::protocol::kept::Id;
use crate::protocol::waiting::attempt_timeout;

/// How many releases may be on their way at once. When thousands of waits are given up together, releases beyond
/// that would spend their time in line, be taken for unanswered, and be sent again and again.
const RELEASES: usize = 256;

pub(super) struct Driver {
    desk: Arc<Desk>,
    waiters: Waiters,
    calls: JoinSet<Done>,
    releases: Arc<Semaphore>,
}

/// A call to the lock service that has ended, or a pause.
pub(super) enum Done {
    Answered { id: Id, sent: Moment, answered: Answered },
    Renewed { sent: Moment, answers: Vec<(Id, Option<Renewed>)> },
    Paused { id: Id, woken: bool },
    Nothing,
}

impl Driver {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        let releases = Arc::new(Semaphore::new(RELEASES));
        Self { desk, waiters: Waiters::default(), calls: JoinSet::new(), releases }
    }

    /// Runs until every handle is dropped and no claim is left.
    pub(super) async fn run(mut self) {
        loop {
            for work in self.desk.look() {
                self.work(work);
            }
            let Ok(rest) = self.desk.rest() else { return };
            let due = rest.filter(|_| observe::COUNTS).map(|rest| self.desk.clock.now() + rest);
            let time = async {
                match rest {
                    Some(rest) => sleep(rest).await,
                    None => pending().await,
                }
            };
            let done = tokio::select! {
                () = self.desk.bell.notified() => None,
                Some(done) = self.calls.join_next() => Some(done.unwrap_or(Done::Nothing)),
                () = time => {
                    if let Some(due) = due {
                        observe::keeper_late(self.desk.clock.now().since(due));
                    }
                    None
                }
            };
            if let Some(done) = done {
                self.done(done);
            }
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Answered { id, sent, answered } => self.desk.step(answered.event(id, sent)),
            Done::Renewed { sent, answers } => self.renewed(sent, answers),
            Done::Paused { id, woken } => self.waiters.paused(id, woken),
            Done::Nothing => {}
        }
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Try(id) => self.attempt(id),
            Work::Renew(ids) => self.renew(&ids),
            Work::Free(id) => self.free(id),
            Work::Adopt { id, sent, until, call } => {
                let within = until.since(self.desk.clock.now());
                self.call(id, sent, within, call);
            }
            Work::Pause { id, until, listen, answer } => self.pause(id, until, listen, answer),
            Work::StopWaiting { id, why } => self.waiters.stop(id, why),
            Work::Probe { claim, within, answer } => self.probe(claim, within, answer),
        }
    }

    /// Sees a call to its end, or to the end of its time.
    fn call(&mut self, id: Id, sent: Moment, within: Duration, call: Call) {
        let given_up = matches!(call, Call::Attempt(_));
        self.calls.spawn(async move {
            let answered = match bounded(within, || call).await {
                Ok(answered) => answered,
                Err(error) if given_up => Answered::Attempt(Err(error)),
                Err(error) => Answered::Release(Err(error)),
            };
            Done::Answered { id, sent, answered }
        });
    }

    fn attempt(&mut self, id: Id) {
        let Some((claim, within)) = self.desk.claim(id) else { return };
        self.waiters.listen_again(id, &claim, &self.desk.backend, &mut self.calls);
        let sent = self.desk.clock.now();
        let call = Arc::clone(&self.desk.backend).try_acquire(claim);
        self.call(id, sent, within, Call::Attempt(call));
    }

    fn free(&mut self, id: Id) {
        let Some((claim, _)) = self.desk.claim(id) else { return };
        let (desk, releases) = (Arc::clone(&self.desk), Arc::clone(&self.releases));
        self.calls.spawn(async move {
            // Nobody closes it.
            let _one = releases.acquire().await;
            let (sent, within) = (desk.clock.now(), attempt_timeout(claim.ttl()));
            let call = Arc::clone(&desk.backend).release(claim);
            let answered = Answered::Release(bounded(within, || call).await.and_then(|result| result));
            Done::Answered { id, sent, answered }
        });
    }

    fn renew(&mut self, ids: &[Id]) {
        let (ids, claims): (Vec<Id>, Vec<Claim>) = self.desk.claims(ids).into_iter().unzip();
        let Some(shortest) = claims.iter().map(Claim::ttl).min() else { return };
        let backend = Arc::clone(&self.desk.backend);
        let sent = self.desk.clock.now();
        self.calls.spawn(async move {
            let answers = match bounded(shortest / 6, || backend.renew(claims)).await {
                Ok(answers) => answers.into_iter().map(Some).collect(),
                Err(error) => vec![Some(Renewed::Unknown(error)); ids.len()],
            };
            let answers = ids.into_iter().zip(answers.into_iter().chain(std::iter::repeat(None)));
            Done::Renewed { sent, answers: answers.collect() }
        });
    }

    fn renewed(&self, sent: Moment, answers: Vec<(Id, Option<Renewed>)>) {
        // A loss is told as such, and nobody may want to hear of renewals that went well.
        let is_told = |answer: &Option<Renewed>| match answer {
            Some(Renewed::Extended) => observe::hears_renewals(),
            Some(Renewed::Gone) => false,
            Some(Renewed::Unknown(_)) | None => true,
        };
        let told = answers.iter().filter(|(_, answer)| is_told(answer));
        let (ids, told): (Vec<Id>, Vec<Option<Renewed>>) = told.cloned().unzip();
        self.desk.step(Event::Renewed { sent, answers });
        for (record, answer) in self.desk.records(&ids).into_iter().zip(&told) {
            let Some(record) = record else { continue };
            let (name, key) = (record.name, &record.key);
            match answer {
                Some(Renewed::Extended) => observe::renewed(name, key),
                // A loss is told as such.
                Some(Renewed::Gone) => {}
                Some(Renewed::Unknown(error)) => observe::renewal_failed(name, key, Some(error)),
                None => observe::renewal_failed(name, key, None),
            }
        }
    }

    fn probe(&mut self, claim: Claim, within: Duration, answer: oneshot::Sender<Result<(), BackendError>>) {
        let backend = Arc::clone(&self.desk.backend);
        self.calls.spawn(async move {
            let result = bounded(within, || backend.release(claim)).await.and_then(|result| result);
            tell(answer, result.map(|_| ()));
            Done::Nothing
        });
    }

    fn pause(&mut self, id: Id, until: Moment, listen: bool, answer: oneshot::Sender<Woken>) {
        let Some(claim) = self.desk.waiter(id) else {
            tell(answer, Woken::ShuttingDown);
            return;
        };
        let rest = until.since(self.desk.clock.now());
        self.waiters.pause(id, &claim, &self.desk.backend, (rest, listen), answer, &mut self.calls);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.desk.end();
    }
}
