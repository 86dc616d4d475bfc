//! The example service as its users meet it: two processes, one Redis, HTTP.

#![allow(clippy::expect_used)] // a broken set-up ends the test, and says why

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use lockrt_tests::{Answer, Example, RedisServer, example, in_time};
use rustix::process::Signal;
use serde_json::Value;

/// The ttl of the service's three ordinary routes.
const TTL: Duration = Duration::from_secs(5);

#[test]
fn fifty_requests_at_two_instances_work_one_at_a_time() {
    let redis = RedisServer::start();
    let instances = [Instance::start("a", &redis.url(), 40), Instance::start("b", &redis.url(), 40)];

    let answers: Vec<Answer> = thread::scope(|scope| {
        let requests: Vec<_> = (0..50)
            .map(|number| {
                let instance = &instances[number % 2];
                let operation = if number % 5 < 2 { "recalculate" } else { "refresh" };
                scope.spawn(move || instance.post(operation))
            })
            .collect();
        requests.into_iter().map(|request| request.join().expect("a request panicked")).collect()
    });

    let (ran, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(
        ran.len() >= 10,
        "of 30 waiting requests at least 10 get their 40 ms within 2 s, not {}",
        ran.len()
    );
    assert!(!refused.is_empty(), "of 20 requests that do not wait, some meet a holder");
    for answer in &refused {
        assert_refused_by_the_lock(answer);
    }

    let mut works: Vec<Work> = instances.iter().flat_map(Instance::history).collect();
    works.sort_by_key(|work| work.started_us);
    assert_eq!(works.len(), ran.len(), "who was refused did no work");
    for pair in works.windows(2) {
        let [earlier, later] = pair else { unreachable!("windows of two") };
        let ended = earlier.ended_us.expect("all work has ended");
        assert!(ended <= later.started_us, "overlap: {earlier:?} and {later:?}");
        assert!(earlier.fencing < later.fencing, "tokens in the order of work: {earlier:?} and {later:?}");
    }
    for instance in &instances {
        let done = works.iter().filter(|work| work.instance == instance.name).count();
        assert!(done > 0, "instance {} took part", instance.name);
        assert_eq!(instance.get("/quotes/acme/42").json()["revision"], done, "no write was lost");
    }
}

#[test]
fn a_killed_instance_lets_the_other_in_after_the_ttl() {
    let redis = RedisServer::start();
    let mut doomed = Instance::start("doomed", &redis.url(), 60_000);
    let heir = Instance::start("heir", &redis.url(), 10);

    let held = thread::scope(|scope| {
        scope.spawn(|| {
            let _ = doomed.try_post("recalculate"); // it dies before it answers
        });
        let held = doomed.working();
        assert_refused_by_the_lock(&heir.post("recalculate"));
        doomed.service.signal(Signal::KILL);
        held
    });
    doomed.service.wait();

    let work = in_time("the heir gets in", || {
        let answer = heir.post("refresh");
        if answer.status == 200 {
            return Some(Work::read(&answer.json()["work"]));
        }
        assert_refused_by_the_lock(&answer);
        None
    });
    let after = Duration::from_micros(work.started_us - held.started_us);
    // The body starts a little after the server set the ttl.
    assert!(
        after + Duration::from_millis(500) >= TTL,
        "the heir got in {after:?} after a holder with a ttl of {TTL:?}"
    );
    assert!(
        after <= TTL + Duration::from_secs(2),
        "the heir got in {after:?} after a holder with a ttl of {TTL:?}"
    );
    assert!(work.fencing > held.fencing);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_body_and_lets_the_other_in_at_once() {
    let redis = RedisServer::start();
    let mut stopped = Instance::start("stopped", &redis.url(), 700);
    let next = Instance::start("next", &redis.url(), 10);

    let (last, waiter) = thread::scope(|scope| {
        let last = scope.spawn(|| stopped.post("recalculate"));
        stopped.working();
        let waiter = scope.spawn(|| next.post("refresh"));
        stopped.service.signal(Signal::INT);
        (last.join().expect("the last request panicked"), waiter.join().expect("the waiter panicked"))
    });
    assert_eq!(last.status, 200, "the running body ended: {last:?}");
    assert_eq!(waiter.status, 200, "the waiter got in: {waiter:?}");
    let last = Work::read(&last.json()["work"]);
    let first = Work::read(&waiter.json()["work"]);
    let ended = last.ended_us.expect("it ended");
    assert!(first.started_us >= ended, "no overlap: {last:?} and {first:?}");
    let gap = Duration::from_micros(first.started_us - ended);
    // 100 ms, and 150 for a machine that is busy with other tests.
    assert!(gap <= Duration::from_millis(250), "the waiter got in {gap:?} after the last body's end");
    assert!(stopped.service.wait().success(), "Ctrl-C is an orderly end");
}

#[test]
fn a_paused_holder_is_refused_by_the_store() {
    let redis = RedisServer::start();
    let instance = Instance::start("a", &redis.url(), 10);
    let (paused, next) = thread::scope(|scope| {
        let paused = scope.spawn(|| instance.post("pause"));
        instance.working();
        let next = instance.post("refresh");
        (paused.join().expect("the paused request panicked"), next)
    });
    assert_eq!(next.status, 200, "{next:?}");
    assert_eq!(paused.status, 409, "{paused:?}");
    let problem = paused.json();
    assert_eq!(problem["type"], "urn:quote-service:stale-write");
    assert_eq!(problem["stored"], next.json()["work"]["fencing"]);
    assert!(problem["brought"].as_u64() < problem["stored"].as_u64());
    assert_eq!(instance.get("/quotes/acme/42").json()["revision"], 1, "the stale write changed nothing");
}

#[test]
fn a_second_reindex_is_skipped_and_the_page_is_served() {
    let instance = Instance::start("alone", "memory:", 300);
    let page = instance.get("/");
    assert_eq!(page.status, 200);
    assert!(page.content_type.starts_with("text/html"), "{}", page.content_type);
    assert!(page.body.contains("Fire ten requests at once"));
    assert_eq!(instance.get("/quotes/acme/unknown").status, 404);

    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| instance.post("reindex"));
        instance.working();
        let second = instance.post("reindex");
        (first.join().expect("the first request panicked"), second)
    });
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!((&first.json()["ran"], &second.json()["ran"]), (&Value::from(true), &Value::from(false)));
    assert_eq!(second.json()["served_by"], "alone");
}

/// One running process of the service.
struct Instance {
    name: &'static str,
    service: Example,
}

impl Instance {
    fn start(name: &'static str, lock_url: &str, work_ms: u64) -> Self {
        static BINARY: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(BINARY.get_or_init(|| example("quote-service")));
        command.env("INSTANCE", name).env("LOCK_URL", lock_url).env("WORK_MS", work_ms.to_string());
        Self { name, service: Example::start(command.env_remove("PEERS")) }
    }

    fn post(&self, operation: &str) -> Answer {
        self.try_post(operation).expect("the service did not answer")
    }

    fn try_post(&self, operation: &str) -> Result<Answer, ureq::Error> {
        self.service.post(&format!("/quotes/acme/42/{operation}"))
    }

    fn get(&self, path: &str) -> Answer {
        self.service.get(path)
    }

    fn history(&self) -> Vec<Work> {
        let works = self.get("/history").json();
        works.as_array().expect("a list").iter().map(Work::read).collect()
    }

    /// The work that goes on, as soon as some does.
    fn working(&self) -> Work {
        in_time("somebody works", || self.history().into_iter().find(|work| work.ended_us.is_none()))
    }
}

fn assert_refused_by_the_lock(answer: &Answer) {
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.content_type, "application/problem+json", "{answer:?}");
    assert_eq!(answer.json()["status"], 409, "{answer:?}");
    let seconds = answer.retry_after.as_deref().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.expect("`Retry-After` in seconds");
    assert!((1..=TTL.as_secs()).contains(&seconds), "{answer:?}");
}

#[derive(Debug)]
struct Work {
    instance: String,
    fencing: u64,
    started_us: u64,
    ended_us: Option<u64>,
}

impl Work {
    fn read(value: &Value) -> Self {
        Self {
            instance: value["instance"].as_str().expect("an instance").to_owned(),
            fencing: value["fencing"].as_u64().expect("a fencing token"),
            started_us: value["started_unix_us"].as_u64().expect("a start"),
            ended_us: value["ended_unix_us"].as_u64(),
        }
    }
}
