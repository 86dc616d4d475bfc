//! A PostgreSQL server to which anything can be done.

use lockrt::Postgres;
use lockrt::conformance::{Fault, Power, SLOWNESS, STEP, Service, Stored};
use tokio::sync::Mutex;

use crate::postgres_server::url_at;
use crate::{Fault as ProxyFault, PgBouncer, PostgresServer, Proxy, SteppedClock};

/// A [`PostgresServer`] behind a [`PgBouncer`], for clients that say so.
#[derive(Debug)]
pub struct PooledPostgres {
    server: PostgresServer,
    pooler: PgBouncer,
}

impl PooledPostgres {
    /// Starts both and waits until they answer.
    pub async fn start() -> Self {
        let server = PostgresServer::start().await;
        let pooler = PgBouncer::start(server.port()).await;
        Self { server, pooler }
    }

    /// The server behind it.
    #[must_use]
    pub fn server(&self) -> &PostgresServer {
        &self.server
    }

    /// The URL of the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        pooled(self.pooler.port())
    }
}

impl Service for PooledPostgres {
    type Client = Postgres;

    async fn client(&self) -> Postgres {
        Postgres::from_url(&self.url()).expect("the URL is well-formed")
    }

    async fn stored(&self) -> Stored {
        self.server.stored().await
    }
}

/// A [`PostgresServer`] on a clock of its own, perhaps behind a [`PgBouncer`], whose clients come through a
/// [`Proxy`].
#[derive(Debug)]
pub struct PostgresPower {
    server: Mutex<PostgresServer>,
    pooler: Option<PgBouncer>,
    proxy: Proxy,
    clock: SteppedClock,
}

impl PostgresPower {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Self {
        let clock = SteppedClock::new();
        let server = PostgresServer::start_on(&clock).await;
        let proxy = Proxy::start(server.port(), 1).await;
        Self { server: Mutex::new(server), pooler: None, proxy, clock }
    }

    /// The same with a pooler in transaction mode between proxy and server.
    pub async fn start_pooled() -> Self {
        let clock = SteppedClock::new();
        let server = PostgresServer::start_on(&clock).await;
        let pooler = PgBouncer::start(server.port()).await;
        let proxy = Proxy::start(pooler.port(), 1).await;
        Self { server: Mutex::new(server), pooler: Some(pooler), proxy, clock }
    }

    /// The server, which clients reach through the proxy only.
    pub async fn server(&self) -> tokio::sync::MutexGuard<'_, PostgresServer> {
        self.server.lock().await
    }

    /// What clients come through.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The URL of the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        if self.pooler.is_some() { pooled(self.proxy.port()) } else { url_at(self.proxy.port()) }
    }

    async fn run(&self, statements: &str) {
        self.server().await.raw().await.batch_execute(statements).await.expect("the statements are right");
    }
}

impl Service for PostgresPower {
    type Client = Postgres;

    async fn client(&self) -> Postgres {
        let client = Postgres::from_url(&self.url()).expect("the URL is well-formed");
        // Behind a pooler calls that meet must not wait for each other.
        if self.pooler.is_some() { client.connections(MANY).expect("it is well-formed") } else { client }
    }

    async fn stored(&self) -> Stored {
        self.server().await.stored().await
    }
}

impl Power for PostgresPower {
    async fn inflict(&self, fault: Fault) {
        let step = i64::try_from(STEP.as_secs()).expect("an hour is a number");
        match fault {
            Fault::Down => self.server().await.kill(),
            Fault::Paused => self.server().await.pause(),
            Fault::Slow => {
                let each_way = u64::try_from(SLOWNESS.as_millis() / 2).expect("a second is a number");
                self.proxy.delay(each_way..each_way + 1);
            }
            Fault::ReplyLost => {
                // The next answer must be that of the next call.
                self.server().await.quiet().await;
                self.proxy.set(ProxyFault::CutAtReply);
            }
            Fault::Forgetful => match &self.pooler {
                Some(pooler) => pooler.reconnect().await,
                None => panic!("a session that forgets has ended"),
            },
            Fault::NoWakeUps => self.run(DEAF).await,
            Fault::ClockAhead => self.clock.differ_by(step),
            Fault::ClientAhead => match SteppedClock::of_this_process() {
                Some(clock) => clock.differ_by(step),
                None => panic!("this process is on the machine's clock, which stays as it is"),
            },
        }
    }

    async fn heal(&self) {
        self.proxy.clear();
        self.clock.differ_by(0);
        if let Some(clock) = SteppedClock::of_this_process() {
            clock.differ_by(0);
        }
        self.server().await.revive().await;
        self.run("DROP TRIGGER IF EXISTS deaf ON lockrt_locks").await;
    }
}

/// More connections than calls of one client at a time, in most cases.
const MANY: usize = 64;

/// Nobody is told of a release any more: no right can be taken away for that, so no row asks for it.
const DEAF: &str = "
    CREATE OR REPLACE FUNCTION deaf() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.wanted := false; RETURN NEW; END $$;
    CREATE TRIGGER deaf BEFORE UPDATE ON lockrt_locks FOR EACH ROW EXECUTE FUNCTION deaf();";

fn pooled(port: u16) -> String {
    format!("{}?pooler=transaction", url_at(port))
}
