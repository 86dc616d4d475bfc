//! The loop that carries out the keeper's decisions.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::backend::erased::DynBackend;
use crate::claim::{Attempt, Claim, Released, Renewed};
use crate::clock::{Clock, Moment};
use crate::error::{BackendError, LossReason};
use crate::keeper::foreign::{bounded, caught, tell, waking};
use crate::keeper::timers::Timers;
use crate::keeper::{Answer, Order, Woken};
use crate::key::LockKey;
use crate::observe;
use crate::protocol::keeping::{Event, Keeping};
use crate::protocol::kept::{Action, Id, Parting, Remains, Told};
use crate::protocol::waiting::attempt_timeout;

pub(super) struct Driver {
    backend: Arc<dyn DynBackend>,
    clock: Clock,
    orders: mpsc::UnboundedReceiver<Order>,
    machine: Keeping,
    seats: HashMap<Id, Seat>,
    calls: JoinSet<Done>,
    timers: Timers,
    closing: Vec<oneshot::Sender<Remains>>,
    settling: Vec<oneshot::Sender<bool>>,
}

/// What the driver knows of one claim beside the machine.
struct Seat {
    name: &'static str,
    key: LockKey,
    ttl: Duration,
    within: Duration,
    attempt: Option<oneshot::Sender<Answer>>,
    release: Option<oneshot::Sender<Released>>,
    ended: Arc<Notify>,
    pause: Option<Pause>,
    listener: Option<Listener>,
}

struct Pause {
    answer: oneshot::Sender<Woken>,
    task: AbortHandle,
}

/// Hears when the key may be free; at most once, then another one takes its place.
struct Listener {
    heard: Arc<Notify>,
    task: AbortHandle,
}

/// A call to the lock service that has ended, or a pause.
enum Done {
    Tried { id: Id, sent: Moment, result: Result<Attempt, BackendError> },
    Renewed { sent: Moment, answers: Vec<(Id, Option<Renewed>)> },
    Freed { id: Id, result: Result<Released, BackendError> },
    Paused { id: Id, woken: bool },
    Nothing,
}

enum Next {
    Order(Option<Order>),
    Done(Done),
    Time,
}

impl Driver {
    pub(super) fn new(
        backend: Arc<dyn DynBackend>,
        clock: Clock,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        Self {
            backend,
            clock,
            orders,
            machine: Keeping::default(),
            seats: HashMap::new(),
            calls: JoinSet::new(),
            timers: Timers::default(),
            closing: Vec::new(),
            settling: Vec::new(),
        }
    }

    /// Runs until every handle is dropped and no claim is left.
    pub(super) async fn run(mut self) {
        let mut open = true;
        while open || !self.machine.is_empty() {
            match self.next(open).await {
                Next::Order(Some(order)) => self.order(order),
                Next::Order(None) => open = false,
                Next::Done(done) => self.done(done),
                Next::Time => self.time(),
            }
            if !self.settling.is_empty() && self.machine.is_settled() {
                let leases = self.machine.has_lease(None);
                self.settling.drain(..).for_each(|answer| tell(answer, leases));
            }
        }
    }

    async fn next(&mut self, open: bool) -> Next {
        let timer = self.timers.next_due();
        let due = self.machine.next_due().into_iter().chain(timer).min();
        let rest = due.map(|at| at.since(self.clock.now()));
        let time = async {
            match rest {
                Some(rest) => sleep(rest).await,
                None => pending().await,
            }
        };
        tokio::select! {
            order = self.orders.recv(), if open => Next::Order(order),
            Some(done) = self.calls.join_next() => Next::Done(done.unwrap_or(Done::Nothing)),
            () = time => Next::Time,
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Try { id, claim, terms, within, answer } => {
                let seat = self.seats.entry(id).or_insert_with(|| Seat {
                    name: terms.name,
                    key: terms.key.clone(),
                    ttl: claim.ttl(),
                    within,
                    attempt: None,
                    release: None,
                    ended: Arc::default(),
                    pause: None,
                    listener: None,
                });
                seat.within = within;
                seat.attempt = Some(answer);
                self.step(Event::Try { id, claim, terms });
            }
            Order::Pause { id, until, listen, answer } => self.pause(id, until, listen, answer),
            Order::Release { id, parting, answer } => {
                if let Some(seat) = self.seats.get_mut(&id) {
                    seat.stop_waiting();
                    // Whoever never had the lock is not told of its release.
                    seat.release = (parting != Parting::Unused).then_some(answer);
                    self.step(Event::Release { id, parting });
                }
            }
            Order::At { at, timer } => self.timers.set(at, timer),
            Order::Probe { claim, within, answer } => self.probe(claim, within, answer),
            Order::Close { within, answer } => {
                self.closing.push(answer);
                let until = self.clock.now() + within;
                self.step(Event::Close { until });
            }
            Order::Settle { answer } => self.settling.push(answer),
            Order::Lose { key, answer } => {
                let lost = self.machine.has_lease(key.as_ref());
                let seats = self.seats.iter();
                let seats = seats.filter(|(_, seat)| key.as_ref().is_none_or(|key| seat.key == *key));
                let answers = seats.map(|(id, _)| (*id, Some(Renewed::Gone))).collect();
                self.step(Event::Renewed { sent: self.clock.now(), answers });
                tell(answer, lost);
            }
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Tried { id, sent, result } => self.step(Event::Tried { id, sent, result }),
            Done::Renewed { sent, answers } => {
                let told = answers.clone();
                self.step(Event::Renewed { sent, answers });
                for (id, answer) in &told {
                    self.tell_renewal(*id, answer.as_ref());
                }
            }
            Done::Freed { id, result } => self.step(Event::Freed { id, result }),
            Done::Paused { id, woken } => {
                if let Some(pause) = self.seats.get_mut(&id).and_then(|seat| seat.pause.take()) {
                    tell(pause.answer, if woken { Woken::Yes } else { Woken::No });
                }
            }
            Done::Nothing => {}
        }
    }

    fn time(&mut self) {
        let now = self.clock.now();
        while let Some(timer) = self.timers.take_due(now) {
            waking(timer.call);
        }
        self.step(Event::Tick);
    }

    fn step(&mut self, event: Event) {
        for action in self.machine.step(event, self.clock.now()) {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Try(id) => self.attempt(id),
            Action::Renew(ids) => self.renew(ids),
            Action::Free(id) => self.free(id),
            Action::Tell(id, told) => self.tell(id, told),
            Action::TellReleased(id, released) => {
                if let Some(seat) = self.seats.get_mut(&id)
                    && let Some(answer) = seat.release.take()
                {
                    tell(answer, released);
                    observe::released(seat.name, &seat.key, released);
                }
            }
            Action::Lost(id, reason) => self.lost(id, reason),
            Action::Abandoned(id) => {
                if let Some(seat) = self.seats.get(&id) {
                    observe::abandoned(seat.name, &seat.key, seat.ttl);
                }
            }
            Action::Forget(id) => {
                if let Some(mut seat) = self.seats.remove(&id) {
                    seat.stop_waiting();
                }
            }
            Action::Closed(remains) => {
                for answer in self.closing.drain(..) {
                    tell(answer, remains.clone());
                }
            }
        }
    }

    fn attempt(&mut self, id: Id) {
        let Some(claim) = self.machine.claim(id).cloned() else { return };
        let Some(within) = self.seats.get(&id).map(|seat| seat.within) else { return };
        // A release that happens after this attempt must not go unheard, so a waiter listens
        // again before it asks again.
        if self.seats.get(&id).is_some_and(|seat| seat.listener.is_some()) {
            self.listen(id, &claim);
        }
        let backend = Arc::clone(&self.backend);
        let sent = self.clock.now();
        self.calls.spawn(async move {
            let result = bounded(within, || backend.try_acquire(&claim)).await.and_then(|result| result);
            Done::Tried { id, sent, result }
        });
    }

    fn renew(&mut self, ids: Vec<Id>) {
        let (ids, claims): (Vec<Id>, Vec<Claim>) =
            ids.into_iter().filter_map(|id| Some((id, self.machine.claim(id)?.clone()))).unzip();
        let Some(shortest) = claims.iter().map(Claim::ttl).min() else { return };
        let backend = Arc::clone(&self.backend);
        let sent = self.clock.now();
        self.calls.spawn(async move {
            let claims: Vec<&Claim> = claims.iter().collect();
            let answers = match bounded(shortest / 6, || backend.renew(&claims)).await {
                Ok(answers) => answers.into_iter().map(Some).collect(),
                Err(error) => vec![Some(Renewed::Unknown(error)); ids.len()],
            };
            let answers = ids.into_iter().zip(answers.into_iter().chain(std::iter::repeat(None)));
            Done::Renewed { sent, answers: answers.collect() }
        });
    }

    fn free(&mut self, id: Id) {
        let Some(claim) = self.machine.claim(id).cloned() else { return };
        let backend = Arc::clone(&self.backend);
        self.calls.spawn(async move {
            let within = attempt_timeout(claim.ttl());
            let result = bounded(within, || backend.release(&claim)).await.and_then(|result| result);
            Done::Freed { id, result }
        });
    }

    fn probe(&mut self, claim: Claim, within: Duration, answer: oneshot::Sender<Result<(), BackendError>>) {
        let backend = Arc::clone(&self.backend);
        self.calls.spawn(async move {
            let result = bounded(within, || backend.release(&claim)).await.and_then(|result| result);
            tell(answer, result.map(|_| ()));
            Done::Nothing
        });
    }

    fn pause(&mut self, id: Id, until: Moment, listen: bool, answer: oneshot::Sender<Woken>) {
        let claim = self.machine.claim(id).filter(|_| !self.machine.is_closing()).cloned();
        let Some(claim) = claim else {
            tell(answer, Woken::ShuttingDown);
            return;
        };
        let heard = listen.then(|| match self.seats.get(&id).and_then(|seat| seat.listener.as_ref()) {
            Some(listener) => Arc::clone(&listener.heard),
            None => self.listen(id, &claim),
        });
        let rest = until.since(self.clock.now());
        let task = self.calls.spawn(async move {
            let woken = if let Some(heard) = heard {
                timeout(rest, heard.notified()).await.is_ok()
            } else {
                sleep(rest).await;
                false
            };
            Done::Paused { id, woken }
        });
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.pause = Some(Pause { answer, task });
        } else {
            task.abort();
        }
    }

    /// Starts to listen for the claim's key, keeping what was heard and not yet acted on.
    fn listen(&mut self, id: Id, claim: &Claim) -> Arc<Notify> {
        let heard = Arc::new(Notify::new());
        let Some(seat) = self.seats.get_mut(&id) else { return heard };
        if let Some(listener) = &seat.listener
            && !listener.task.is_finished()
        {
            return Arc::clone(&listener.heard);
        }
        let (backend, claim, told) = (Arc::clone(&self.backend), claim.clone(), Arc::clone(&heard));
        let task = self.calls.spawn(async move {
            // A backend that panics here is one that never wakes.
            if caught(|| backend.freed(&claim)).await.is_ok() {
                told.notify_one();
            } else {
                pending::<()>().await;
            }
            Done::Nothing
        });
        seat.listener = Some(Listener { heard: Arc::clone(&heard), task });
        heard
    }

    fn tell(&mut self, id: Id, told: Told) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if let (Told::ShuttingDown, Some(pause)) = (&told, seat.pause.take()) {
            pause.task.abort();
            tell(pause.answer, Woken::ShuttingDown);
        }
        if let Told::Granted { .. } = told {
            seat.stop_waiting();
        }
        if let Some(attempt) = seat.attempt.take() {
            // A caller that is gone has dropped its seat, and that order is on its way here.
            tell(attempt, Answer { told, ended: Arc::clone(&seat.ended) });
        }
    }

    fn lost(&mut self, id: Id, reason: LossReason) {
        if let Some(seat) = self.seats.get(&id) {
            waking(|| seat.ended.notify_waiters());
            observe::lost(seat.name, &seat.key, reason);
        }
    }

    fn tell_renewal(&self, id: Id, answer: Option<&Renewed>) {
        let Some(seat) = self.seats.get(&id) else { return };
        match answer {
            Some(Renewed::Extended) => observe::renewed(seat.name, &seat.key),
            // Told as the loss of the lease.
            Some(Renewed::Gone) => {}
            Some(Renewed::Unknown(error)) => observe::renewal_failed(seat.name, &seat.key, Some(error)),
            None => observe::renewal_failed(seat.name, &seat.key, None),
        }
    }
}

impl Seat {
    fn stop_waiting(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.task.abort();
        }
        if let Some(pause) = self.pause.take() {
            pause.task.abort();
        }
    }
}
