//! A service that is down, silent, slow or forgetful, and the callers who ask it.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::asking::{
    LONG, SOON, attempted, extended, freed, gone, granted, granted_within, held, key, not_held, released,
    renewed, rises, short,
};
use super::power::SLOWNESS;
use super::unanswered::answered_again;
use super::{Fault, Power};
use crate::backend::contract::Backend;
use crate::claim::{Attempt, Claim, Renewed};
use crate::testing::{claim, waiting_claim};

/// How long a caller with little time waits for an answer.
const BOUND: Duration = Duration::from_millis(200);

/// How late it may be freed of a call that it drops, on a machine that does other work too.
const SLACK: Duration = Duration::from_secs(1);

/// A service that cannot be reached answers nothing, to old and to new clients, and keeps nobody; then
/// it is found again.
pub async fn a_service_that_is_down_gives_no_answer_and_is_found_again(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    for _ in 0..2 {
        let holder = claim(&key("down"), LONG);
        answered_again(&one, &holder).await;
        answered_again(&two, &claim(&key("probe"), LONG)).await;
        service.inflict(Fault::Down).await;
        let late = service.client().await;
        for client in [&one, &two, &late] {
            nothing_is_answered(client, &holder).await;
        }
        service.heal().await;
        for client in [&one, &two, &late] {
            answered_again(client, &claim(&key("probe"), LONG)).await;
        }
    }
}

/// A service that stopped in the middle of everything keeps nobody longer than he waits; then it is
/// found again, and what was given up can be cleaned up behind.
pub async fn a_paused_service_keeps_nobody_and_is_found_again(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let (holder, other) = (claim(&key("paused"), LONG), claim(&key("given-up"), LONG));
    granted(&one, &holder).await;
    granted(&two, &claim(&key("probe"), LONG)).await;
    service.inflict(Fault::Paused).await;
    for _ in 0..3 {
        nothing_is_answered(&one, &holder).await;
        given_up(two.try_acquire(&other)).await;
    }
    service.heal().await;
    for client in [&one, &two] {
        answered_again(client, &claim(&key("probe"), LONG)).await;
    }
    let start = Instant::now();
    loop {
        released(&one, &other).await;
        if let Attempt::Granted { .. } = attempted(&one, &claim(other.key(), LONG)).await {
            break;
        }
        assert!(start.elapsed() < SOON, "an attempt that was given up cannot be cleaned up");
        sleep(Duration::from_millis(2)).await;
    }
    // A paused service has forgotten nothing, nor given anything away.
    held(&two, &claim(holder.key(), LONG)).await;
    extended(&one, &holder).await;
}

/// A slow answer is the same answer, and who has no time for it gives it up in time.
pub async fn a_slow_service_is_waited_for_as_long_as_the_caller_likes(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let lock = key("slow");
    let (holder, stranger) = (claim(&lock, LONG), waiting_claim(&lock, LONG));
    for client in [&one, &two] {
        granted(client, &claim(&key("connected"), LONG)).await;
    }
    service.inflict(Fault::Slow).await;
    let start = Instant::now();
    let first = granted(&one, &holder).await;
    assert!(start.elapsed() >= SLOWNESS * 9 / 10, "the service is not slow: {:?}", start.elapsed());
    held(&two, &stranger).await;
    extended(&one, &holder).await;
    gone(&two, &stranger).await;
    given_up(timeout(BOUND / 4, one.renew(&[&holder]))).await;
    given_up(timeout(BOUND / 4, two.try_acquire(&stranger))).await;
    released(&two, &stranger).await;
    freed(&one, &holder).await;
    not_held(&one, &holder).await;
    rises(first, granted(&two, &claim(&lock, LONG)).await);
    service.heal().await;
}

/// What a service forgets of scripts and caches costs no call its answer.
pub async fn a_forgetful_service_answers_every_call(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let lock = key("forgotten");
    let holder = claim(&lock, LONG);
    for client in [&one, &two] {
        service.inflict(Fault::Forgetful).await;
        let first = granted(client, &holder).await;
        service.inflict(Fault::Forgetful).await;
        held(client, &claim(&lock, LONG)).await;
        service.inflict(Fault::Forgetful).await;
        let claims = [(); 250].map(|()| claim(&key("batch"), LONG));
        let batch: Vec<&Claim> = claims.iter().chain([&holder]).collect();
        let answers = renewed(client, &batch).await;
        assert!(matches!(answers.last(), Some(Renewed::Extended)), "{answers:?}");
        assert!(answers[..250].iter().all(|answer| matches!(answer, Renewed::Gone)), "{answers:?}");
        service.inflict(Fault::Forgetful).await;
        freed(client, &holder).await;
        service.inflict(Fault::Forgetful).await;
        let owner = claim(&lock, LONG);
        rises(first, granted(client, &owner).await);
        freed(client, &owner).await;
    }
    service.heal().await;
}

/// Tokens rise over restarts, even where everything stored is lost.
pub async fn fencing_tokens_rise_over_a_restart(service: &impl Power) {
    let (one, ttl) = (service.client().await, LONG);
    let (lock, mut last) = (key("restart"), None);
    for _ in 0..3 {
        for _ in 0..3 {
            let owner = claim(&lock, ttl);
            let token = granted(&one, &owner).await;
            rises(last, token);
            last = token;
            freed(&one, &owner).await;
        }
        service.inflict(Fault::Down).await;
        service.heal().await;
        answered_again(&one, &claim(&key("probe"), LONG)).await;
    }
}

/// A restart has kept a lease or has not; either way holder and contenders hear the same.
pub async fn a_lease_that_a_restart_has_lost_is_gone_for_its_holder(service: &impl Power) {
    let (one, two) = (service.client().await, service.client().await);
    let (lock, ttl) = (key("kept"), short(&one));
    let (holder, other) = (claim(&lock, LONG), claim(&lock, LONG));
    let first = granted(&one, &holder).await;
    service.inflict(Fault::Down).await;
    service.heal().await;
    for client in [&one, &two] {
        answered_again(client, &claim(&key("probe"), LONG)).await;
    }
    match attempted(&two, &other).await {
        Attempt::Granted { fencing } => {
            rises(first, fencing);
            gone(&one, &holder).await;
            not_held(&one, &holder).await;
            extended(&two, &other).await;
        }
        Attempt::Held { .. } => {
            // The session of another connection may be over by now, which is told truly, too.
            match &renewed(&one, &[&holder]).await[..] {
                [Renewed::Extended] => freed(&one, &holder).await,
                [Renewed::Gone] => {}
                answers => panic!("{answers:?}"),
            }
            rises(first, granted_within(ttl, &two, &other).await);
        }
    }
}

/// One call of each kind, none of which may be answered, or keep its caller.
async fn nothing_is_answered(client: &impl Backend, holder: &Claim) {
    let stranger = waiting_claim(holder.key(), LONG);
    for claim in [holder, &stranger] {
        if let Some(Ok(attempt)) = given_up(client.try_acquire(claim)).await {
            panic!("nobody was there to answer {attempt:?}");
        }
    }
    if let Some(answers) = given_up(client.renew(&[holder, &stranger])).await {
        assert!(matches!(answers[..], [Renewed::Unknown(_), Renewed::Unknown(_)]), "{answers:?}");
    }
    if let Some(Ok(released)) = given_up(client.release(&stranger)).await {
        panic!("nobody was there to answer {released:?}");
    }
    given_up(client.freed(&stranger)).await;
}

/// What `call` gives within a caller's bound; after it the call is dropped, at once.
async fn given_up<T>(call: impl Future<Output = T>) -> Option<T> {
    let start = Instant::now();
    let answer = timeout(BOUND, call).await;
    assert!(start.elapsed() < BOUND + SLACK, "a call has kept its caller for {:?}", start.elapsed());
    answer.ok()
}
