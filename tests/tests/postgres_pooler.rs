//! PostgreSQL behind a pooler that gives a connection to another server process after each transaction.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use lockrt::testing::claim;
use lockrt::{Attempt, Backend, Outcome, Postgres, Released};
use lockrt_tests::Way::{Answer, Request};
use lockrt_tests::{
    Dice, Fault, PgBouncer, PooledPostgres, PostgresServer, Proxy, Toxic, granted, key, soon, url_at,
};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);

/// What stands between the client and the server.
struct Way {
    _server: PostgresServer,
    _pooler: PgBouncer,
    _proxies: [Proxy; 2],
}

/// A client whose requests reach the pooler in parts, as the answers do.
async fn start() -> (Way, Arc<Postgres>) {
    let server = PostgresServer::start().await;
    let behind = Proxy::start(server.port(), 1).await;
    let pooler = PgBouncer::start(behind.port()).await;
    let before = Proxy::start(pooler.port(), 1).await;
    let url = format!("{}?pooler=transaction", url_at(before.port()));
    let client = Arc::new(Postgres::from_url(&url).unwrap().connections(2).unwrap());
    let every = Duration::from_millis(1);
    before.add([Toxic::Trickle { way: Request, bytes: 400, every }]);
    behind.add([Toxic::Trickle { way: Answer, bytes: 40, every }]);
    (Way { _server: server, _pooler: pooler, _proxies: [before, behind] }, client)
}

/// Has four callers take and free locks, each perhaps after an attempt that it gives up within so many
/// microseconds.
async fn called(client: Arc<Postgres>, given_up_within: Option<u64>) {
    let mut callers = JoinSet::new();
    for caller in 0..4 {
        let client = Arc::clone(&client);
        callers.spawn(async move {
            let mut dice = Dice::new(caller);
            for round in 0..15 {
                let owner = claim(&key(&format!("{caller}:{round}")), TTL);
                if let Some(most) = given_up_within {
                    let patience = Duration::from_micros(dice.within(0..most));
                    let hasty = timeout(patience, client.try_acquire(&owner)).await;
                    assert!(!matches!(hasty, Ok(Err(_))), "{hasty:?}");
                }
                let granted = client.try_acquire(&owner).await;
                assert!(matches!(granted, Ok(Attempt::Granted { .. })), "{granted:?}");
                let freed = client.release(&owner).await;
                assert!(matches!(freed, Ok(Released::Freed)), "{freed:?}");
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
}

/// PgBouncer gives the server away when it has passed on the last answer that it expects, also in the
/// midst of the next request: its rest would go to another server.
#[tokio::test]
async fn requests_of_many_callers_stay_whole_behind_a_pooler() {
    let (_way, client) = start().await;
    called(client, None).await;
}

/// What is left of an answer must have come before the next request leaves, also if nobody waits for it.
#[tokio::test]
async fn requests_stay_whole_behind_calls_that_were_given_up() {
    let (_way, client) = start().await;
    called(client, Some(40_000)).await;
}

/// What is left of an answer may be long in coming, as behind a row that somebody has locked.
#[tokio::test]
async fn a_call_that_was_given_up_keeps_nobody_waiting_who_can_have_another_connection() {
    let service = PooledPostgres::start().await;
    let client = Postgres::from_url(&service.url()).unwrap().connections(2).unwrap();
    let stuck = claim(&key("stuck"), TTL);
    granted(&client, &stuck).await;
    let mut raw = service.server().raw().await;
    let transaction = raw.transaction().await.unwrap();
    transaction.execute("SELECT FROM lockrt_locks WHERE key = 'stuck' FOR UPDATE", &[]).await.unwrap();
    assert!(timeout(Duration::from_millis(50), client.release(&stuck)).await.is_err());
    for number in 0..3 {
        soon("another lock", granted(&client, &claim(&key(&format!("free:{number}")), TTL))).await;
    }
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn a_call_that_was_not_sent_yet_learns_that_its_connection_is_given_up() {
    let server = PostgresServer::start().await;
    let pooler = PgBouncer::start(server.port()).await;
    let proxy = Proxy::start(pooler.port(), 1).await;
    let url = format!("{}?pooler=transaction", url_at(proxy.port()));
    let client = Arc::new(Postgres::from_url(&url).unwrap().connections(1).unwrap());
    granted(&*client, &claim(&key("sent"), TTL)).await;
    proxy.set(Fault::Silence);
    let call = |name: &str| {
        let (client, claim) = (Arc::clone(&client), claim(&key(name), TTL));
        async move { client.try_acquire(&claim).await }
    };
    let _sent = tokio::spawn(call("never answered"));
    let queued = tokio::spawn(call("not sent"));
    // Polled in their order, on this one thread.
    yield_now().await;
    assert!(timeout(Duration::from_millis(1_200), call("given up")).await.is_err());
    let error = soon("the end of the wait", queued).await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
}
