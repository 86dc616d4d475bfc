//! Counters on real servers.

use std::cell::Cell;

use lockrt::FencingToken;
use lockrt::fence::FenceError;
use lockrt::fence::postgres::{PostgresFence, SCHEMA};
use lockrt::fence::redis::{RedisFence, Write};
use lockrt_tests::{PostgresServer, RedisServer};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::play::{Counter, Idiom, lost_update};

struct OnRedis {
    fence: RedisFence,
    key: String,
    connection: MultiplexedConnection,
}

impl Counter for OnRedis {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError> {
        self.fence.register(&mut self.connection.clone(), token).await
    }

    async fn read(&self) -> u64 {
        let value: Option<u64> = self.connection.clone().get(&self.key).await.unwrap();
        value.unwrap_or_default()
    }

    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError> {
        let mut connection = self.connection.clone();
        let answer = match idiom {
            Idiom::Write => self.fence.write(&mut connection, token, Write::set(value)).await,
            Idiom::Once => self.fence.write_once(&mut connection, token, Write::set(value)).await,
        };
        answer.map(drop)
    }
}

/// Drives the connections; the cases have runtimes of their own.
fn driver() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub(crate) fn on_redis(cases: u32, rules: (Idiom, bool)) -> Option<Vec<usize>> {
    let runtime = driver();
    let server = RedisServer::start();
    let raw = runtime.block_on(server.raw());
    let counters = Cell::new(0);
    lost_update(cases, rules, async || {
        counters.set(counters.get() + 1);
        let key = format!("n:{}", counters.get());
        let fence = RedisFence::beside(&key).unwrap();
        OnRedis { fence, key, connection: raw.clone() }
    })
}

/// A row of PostgreSQL. The fence is the table of lockrt, or a column of the row.
struct OnPostgres<'a> {
    client: &'a Mutex<Client>,
    id: i64,
    fence: Option<PostgresFence>,
}

/// A column lets the holder pass if it has changed a row; what it answers names no token.
fn changed(rows: u64, offered: FencingToken) -> Result<(), FenceError> {
    let in_memory = lockrt::fence::Fence::new();
    in_memory.register("n", FencingToken::new(u64::MAX))?;
    if rows == 1 { Ok(()) } else { in_memory.register("n", offered) }
}

impl OnPostgres<'_> {
    fn number(token: FencingToken) -> i64 {
        i64::try_from(token.get()).unwrap()
    }
}

impl Counter for OnPostgres<'_> {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError> {
        let client = self.client.lock().await;
        let Some(fence) = &self.fence else {
            let register = "UPDATE counter SET fencing_token = $1 WHERE id = $2 AND fencing_token <= $1";
            return changed(
                client.execute(register, &[&Self::number(token), &self.id]).await.unwrap(),
                token,
            );
        };
        fence.register(&*client, token).await
    }

    async fn read(&self) -> u64 {
        let client = self.client.lock().await;
        let row = client.query_one("SELECT n FROM counter WHERE id = $1", &[&self.id]).await.unwrap();
        u64::try_from(row.get::<_, i64>(0)).unwrap()
    }

    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError> {
        let mut client = self.client.lock().await;
        let value = i64::try_from(value).unwrap();
        let Some(fence) = &self.fence else {
            let write = "UPDATE counter SET n = $3, fencing_token = $1 WHERE id = $2 AND fencing_token <= $1";
            let rows = client.execute(write, &[&Self::number(token), &self.id, &value]).await.unwrap();
            return changed(rows, token);
        };
        let transaction = client.transaction().await.unwrap();
        match idiom {
            Idiom::Write => fence.guard(&transaction, token).await?,
            Idiom::Once => fence.guard_once(&transaction, token).await?,
        }
        let write = "UPDATE counter SET n = $1 WHERE id = $2";
        transaction.execute(write, &[&value, &self.id]).await.unwrap();
        transaction.commit().await.unwrap();
        Ok(())
    }
}

pub(crate) fn on_postgres(cases: u32, rules: (Idiom, bool)) -> Option<Vec<usize>> {
    on_rows(cases, rules, |id| Some(PostgresFence::new(&format!("n:{id}")).unwrap()))
}

pub(crate) fn behind_a_column(cases: u32, registers: bool) -> Option<Vec<usize>> {
    on_rows(cases, (Idiom::Write, registers), |_| None)
}

fn on_rows(
    cases: u32,
    rules: (Idiom, bool),
    fence: impl Fn(i64) -> Option<PostgresFence>,
) -> Option<Vec<usize>> {
    let runtime = driver();
    let (_server, client) = runtime.block_on(async {
        let server = PostgresServer::start_empty().await;
        let client = server.raw().await;
        let table = "CREATE TABLE counter (id bigserial PRIMARY KEY, n bigint NOT NULL,
            fencing_token bigint NOT NULL DEFAULT 0)";
        client.batch_execute(&format!("{SCHEMA}; {table}")).await.unwrap();
        (server, Mutex::new(client))
    });
    lost_update(cases, rules, async || {
        let insert = "INSERT INTO counter (n) VALUES (0) RETURNING id";
        let id = client.lock().await.query_one(insert, &[]).await.unwrap().get(0);
        OnPostgres { client: &client, id, fence: fence(id) }
    })
}
