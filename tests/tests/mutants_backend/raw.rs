//! Redis by plain commands, with the shortcuts that a real server and its network show for what they
//! are.

use std::time::Duration;

use lockrt::conformance::{Fault, Power, SLOWNESS, Service, Stored};
use lockrt::{Attempt, Backend, BackendError, Capabilities, Claim, Released, Renewed};
use lockrt_tests::{Proxy, RedisServer};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult, cmd};

const CAPABILITIES: Capabilities = Capabilities::new("raw redis");

/// What is done in two commands where one step is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortcut {
    /// Nothing.
    None,
    /// Taking the key, and giving it an expiry.
    SetnxThenExpire,
    /// Looking whether the key is free, and taking it.
    GetThenSet,
    /// Looking whose the key is, and deleting it.
    GetThenDelete,
    /// Looking whose the key is, and moving its expiry.
    GetThenExpire,
}

impl Shortcut {
    /// Each with the case that it was made for.
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::SetnxThenExpire, "an_attempt_given_up_at_any_moment_ends_with_its_ttl"),
        (Self::GetThenSet, "of_many_attempts_at_once_one_is_granted"),
        (Self::GetThenDelete, "a_call_that_arrives_as_its_lease_ends_spares_the_next_holder"),
        (Self::GetThenExpire, "a_call_that_arrives_as_its_lease_ends_spares_the_next_holder"),
    ];
}

/// A server whose clients take a shortcut.
#[derive(Debug)]
pub(crate) struct RawRedis {
    server: RedisServer,
    proxy: Proxy,
    shortcut: Shortcut,
}

impl RawRedis {
    pub(crate) async fn start(shortcut: Shortcut) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port(), 1).await;
        Self { server, proxy, shortcut }
    }
}

impl Service for RawRedis {
    type Client = Raw;

    async fn client(&self) -> Raw {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = Client::open(self.proxy.url()).expect("the URL is well-formed");
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        Raw { connection: connection.expect("the server is up"), shortcut: self.shortcut }
    }

    async fn stored(&self) -> Stored {
        self.server.stored().await
    }
}

impl Power for RawRedis {
    async fn inflict(&self, fault: Fault) {
        assert_eq!(fault, Fault::Slow);
        let each_way = u64::try_from(SLOWNESS.as_millis() / 2).expect("a second is a number");
        self.proxy.delay(each_way..each_way + 1);
    }

    async fn heal(&self) {
        self.proxy.clear();
    }
}

#[derive(Debug)]
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    shortcut: Shortcut,
}

impl Raw {
    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        cmd(words[0]).arg(&words[1..]).query_async(&mut self.connection.clone()).await
    }

    /// Does something if the key is the claim's, in one step: its answer, or 0.
    async fn if_mine(&self, then: &str, claim: &Claim) -> RedisResult<u8> {
        let script = format!("if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return {then}");
        let (key, owner) = (claim.key().as_str(), claim.owner().wire());
        self.ask(&["EVAL", &script, "1", key, &owner, &claim.ttl_ms().to_string()]).await
    }

    async fn is_mine(&self, claim: &Claim) -> RedisResult<bool> {
        let holder: Option<String> = self.ask(&["GET", claim.key().as_str()]).await?;
        Ok(holder == Some(claim.owner().wire()))
    }

    /// Whether the claim has the key now.
    async fn taken(&self, claim: &Claim) -> RedisResult<bool> {
        let (key, owner, ttl) = (claim.key().as_str(), claim.owner().wire(), claim.ttl_ms().to_string());
        match self.shortcut {
            Shortcut::SetnxThenExpire => {
                if !self.ask::<bool>(&["SETNX", key, &owner]).await? && !self.is_mine(claim).await? {
                    return Ok(false);
                }
                self.ask(&["PEXPIRE", key, &ttl]).await
            }
            Shortcut::GetThenSet => {
                let holder: Option<String> = self.ask(&["GET", key]).await?;
                if holder.is_some_and(|holder| holder != owner) {
                    return Ok(false);
                }
                let () = self.ask(&["SET", key, &owner, "PX", &ttl]).await?;
                Ok(true)
            }
            _ => {
                let set: Option<String> = self.ask(&["SET", key, &owner, "NX", "PX", &ttl]).await?;
                let again = "redis.call('PEXPIRE', KEYS[1], ARGV[2])";
                Ok(set.is_some() || self.if_mine(again, claim).await? == 1)
            }
        }
    }

    async fn renewed(&self, claim: &Claim) -> RedisResult<bool> {
        if self.shortcut == Shortcut::GetThenExpire {
            let (key, ttl) = (claim.key().as_str(), claim.ttl_ms().to_string());
            return Ok(self.is_mine(claim).await? && self.ask(&["PEXPIRE", key, &ttl]).await?);
        }
        Ok(self.if_mine("redis.call('PEXPIRE', KEYS[1], ARGV[2])", claim).await? == 1)
    }

    async fn deleted(&self, claim: &Claim) -> RedisResult<bool> {
        if self.shortcut == Shortcut::GetThenDelete {
            return Ok(self.is_mine(claim).await? && self.ask(&["DEL", claim.key().as_str()]).await?);
        }
        Ok(self.if_mine("redis.call('DEL', KEYS[1])", claim).await? == 1)
    }
}

impl Backend for Raw {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt, BackendError> {
        if self.taken(claim).await.map_err(BackendError::unknown)? {
            return Ok(Attempt::Granted { fencing: None });
        }
        let left: i64 = self.ask(&["PTTL", claim.key().as_str()]).await.map_err(BackendError::unknown)?;
        Ok(Attempt::Held { free_in: u64::try_from(left).ok().map(Duration::from_millis) })
    }

    async fn renew(&self, claims: &[&Claim]) -> Vec<Renewed> {
        let mut answers = Vec::new();
        for claim in claims {
            answers.push(match self.renewed(claim).await {
                Ok(true) => Renewed::Extended,
                Ok(false) => Renewed::Gone,
                Err(error) => Renewed::Unknown(BackendError::unknown(error)),
            });
        }
        answers
    }

    async fn release(&self, claim: &Claim) -> Result<Released, BackendError> {
        match self.deleted(claim).await {
            Ok(true) => Ok(Released::Freed),
            Ok(false) => Ok(Released::NotHeld),
            Err(error) => Err(BackendError::unknown(error)),
        }
    }
}
