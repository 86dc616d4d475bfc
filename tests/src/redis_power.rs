//! A Redis server to which anything can be done.

use lockrt::Redis;
use lockrt::conformance::{Fault, Power, SLOWNESS, STEP, Service, Stored};
use tokio::sync::Mutex;

use crate::{Fault as ProxyFault, Proxy, RedisServer, SteppedClock};

/// A [`RedisServer`] on a clock of its own, whose clients come through a [`Proxy`].
#[derive(Debug)]
pub struct RedisPower {
    server: Mutex<RedisServer>,
    proxy: Proxy,
    clock: SteppedClock,
}

impl RedisPower {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Self {
        let clock = SteppedClock::new();
        let server = RedisServer::start_on(&clock);
        let proxy = Proxy::start(server.port(), 1).await;
        Self { server: Mutex::new(server), proxy, clock }
    }

    /// The server, which clients reach through the proxy only.
    pub async fn server(&self) -> tokio::sync::MutexGuard<'_, RedisServer> {
        self.server.lock().await
    }

    async fn ask(&self, words: &[&str]) {
        let mut raw = self.server().await.raw().await;
        let asked = redis::cmd(words[0]).arg(&words[1..]).exec_async(&mut raw).await;
        asked.expect("the server takes the command");
    }
}

impl Service for RedisPower {
    type Client = Redis;

    async fn client(&self) -> Redis {
        Redis::from_url(&self.proxy.url()).expect("the URL is well-formed")
    }

    async fn stored(&self) -> Stored {
        self.server().await.stored().await
    }
}

impl Power for RedisPower {
    async fn inflict(&self, fault: Fault) {
        let step = i64::try_from(STEP.as_secs()).expect("an hour is a number");
        match fault {
            Fault::Down => self.server().await.kill(),
            Fault::Paused => self.server().await.pause(),
            Fault::Slow => {
                let each_way = u64::try_from(SLOWNESS.as_millis() / 2).expect("a second is a number");
                self.proxy.delay(each_way..each_way + 1);
            }
            Fault::ReplyLost => self.proxy.set(ProxyFault::CutAtReply),
            Fault::Forgetful => self.ask(&["SCRIPT", "FLUSH"]).await,
            Fault::NoWakeUps => self.ask(&["ACL", "SETUSER", "default", "-publish"]).await,
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
        self.server().await.revive();
        self.ask(&["ACL", "SETUSER", "default", "+publish"]).await;
    }
}
