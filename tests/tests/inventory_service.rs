//! The example service on PostgreSQL: what its README shows, and what clients may rely on.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a broken set-up ends the test, and says why

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use lockrt_tests::{Answer, Example, PostgresServer, example, in_time};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const RUN: &str = "examples/inventory-service/run";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository")
}

fn database() -> PostgresServer {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(PostgresServer::start_empty())
}

/// An instance with these arguments.
fn instance(arguments: &[&str], url: &str) -> Example {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(BINARY.get_or_init(|| example("inventory-service")));
    Example::start(command.args(arguments).env("DATABASE_URL", url))
}

/// Two instances that start at once, and a shelf of apples.
fn two_instances(arguments: &[&str], url: &str, apples: u32) -> [Example; 2] {
    let instances = thread::scope(|scope| {
        let starting = [(); 2].map(|()| scope.spawn(|| instance(arguments, url)));
        starting.map(|instance| instance.join().unwrap())
    });
    assert_eq!(instances[0].put("/stock/apple", &json!({ "available": apples })).status, 204);
    instances
}

/// The README's command lines that begin with [`RUN`], each with the output that follows it.
fn shown() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("examples/inventory-service/README.md")).unwrap();
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    let pairs = blocks.windows(2).filter_map(|pair| {
        let (command, output) = (pair[0].strip_prefix("sh\n")?, pair[1].strip_prefix("text\n")?);
        Some((command.trim().to_owned(), output.to_owned()))
    });
    pairs.filter(|(command, _)| command.starts_with(RUN)).collect()
}

/// What differs from run to run replaced: tokens, and the names of shelves.
fn same(output: &str) -> String {
    let words = output.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let masked = words.map(|word| {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let mask = if name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_digit()) {
            "<token>"
        } else if name.starts_with("apple-") {
            "<sku>"
        } else {
            name
        };
        format!("{mask}{}", &word[name.len()..])
    });
    masked.collect()
}

/// What a command line of the README prints, on this database or its own.
fn printed(command: &str, url: Option<&str>, scratch: &Path) -> String {
    let mut words = command.split_whitespace();
    let mut run = Command::new(root().join(words.next().unwrap()));
    run.args(words).current_dir(root()).env_remove("RUST_LOG").env("TMPDIR", scratch);
    match url {
        Some(url) => run.env("DATABASE_URL", url),
        None => run.env_remove("DATABASE_URL"),
    };
    let output = run.output().expect("the script can be run");
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command}: {}\n{stdout}\n{stderr}", output.status);
    stdout
}

/// A directory that anybody may use, deleted when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lockrt-inventory-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Whether nothing is here, and no process was told to use it.
    fn is_clean(&self) -> bool {
        let path = self.0.to_str().unwrap();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut environments = processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
        fs::read_dir(path).unwrap().next().is_none()
            && !environments.any(|variables| String::from_utf8_lossy(&variables).contains(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_commands_of_the_readme_print_what_it_says() {
    let (server, scratch) = (database(), Scratch::new("readme"));
    let shown = shown();
    let ways: Vec<&str> = shown.iter().filter_map(|(command, _)| command.rsplit(' ').next()).collect();
    assert_eq!(ways, ["naive", "fenced", "transaction"], "three commands, each with its output");
    thread::scope(|scope| {
        for (command, output) in &shown {
            let (url, scratch) = (server.url(), &scratch.0);
            scope.spawn(move || {
                let printed = printed(command, Some(&url), scratch);
                assert_eq!(same(&printed), same(output), "{command} printed:\n{printed}");
            });
        }
    });
    assert!(scratch.is_clean(), "no server was started");
}

#[test]
fn a_naive_reservation_is_sold_twice_and_the_other_ways_are_right() {
    let scratch = Scratch::new("own");
    let printed = printed(&format!("{RUN} --chaos"), None, &scratch.0);
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .skip_while(|line| !line.starts_with("| way "))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let right = ["7", "3", "3", "right"];
    assert_eq!(
        rows,
        [
            ["naive", "200", "200", "200", "7", "7", "3", "4 may be sold twice"].to_vec(),
            [&["fenced", "409", "200", "200"], &right[..]].concat(),
            [&["transaction", "503", "200", "200"], &right[..]].concat(),
        ],
        "{printed}"
    );
    assert!(scratch.is_clean(), "the server of its own has ended, and its data are gone");
}

#[test]
fn a_server_of_its_own_ends_with_the_service() {
    let scratch = Scratch::new("served");
    let mut run = Command::new(root().join(RUN));
    let mut service = Example::start(run.env_remove("DATABASE_URL").env("TMPDIR", &scratch.0));
    assert_eq!(service.put("/stock/apple", &json!({ "available": 1 })).status, 204);
    assert_eq!(service.put("/stock/apple/orders/1", &json!({ "quantity": 1 })).status, 200);
    assert!(!scratch.is_clean());
    service.signal(Signal::TERM);
    service.wait();
    assert!(scratch.is_clean());
}

#[test]
fn a_demonstration_that_is_ended_leaves_no_stopped_process() {
    let scratch = Scratch::new("ended");
    let mut run = Command::new(root().join(RUN));
    run.args(["--chaos", "naive"]).env_remove("DATABASE_URL").env("TMPDIR", &scratch.0);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut stopped = lines.skip_while(|line| !line.contains("SIGSTOP"));
    assert!(stopped.next().is_some(), "A is stopped");
    assert!(!scratch.is_clean());
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(143));
    in_time("all processes have ended", || scratch.is_clean().then_some(()));
}

/// What the comparison at the write alone lets pass: the next one has read already, and has not written.
#[test]
fn a_late_reservation_is_refused_though_the_next_one_has_only_read() {
    let server = database();
    let [one, two] = two_instances(&["fenced", "--stop-before-write"], &server.url(), 10);
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| one.put("/stock/apple/orders/A", &json!({ "quantity": 3 })));
        one.stands_still();
        let second = scope.spawn(|| two.put("/stock/apple/orders/B", &json!({ "quantity": 4 })));
        two.stands_still();
        one.signal(Signal::CONT);
        let first = first.join().unwrap();
        two.signal(Signal::CONT);
        (first, second.join().unwrap())
    });
    assert_eq!((first.status, second.status), (409, 200), "{first:?} {second:?}");
    let problem = first.json();
    assert_eq!(problem["type"], "urn:lockrt:fence:stale");
    assert!(problem["offered"].as_str() < problem["stored"].as_str(), "{problem}");
    assert_eq!(one.get("/stock/apple").json(), json!({ "available": 6, "reserved": 4, "orders": ["B"] }));

    let run = || {
        let runs = one.get("/jobs?job=reserve:apple").json();
        let run = runs.as_array().unwrap().iter().find(|run| run["run"] == "A").unwrap().clone();
        (run["token"].as_str().map(str::to_owned), run["outcome"].as_str().map(str::to_owned))
    };
    let offered = problem["offered"].as_str().map(str::to_owned);
    assert_eq!(run(), (offered, Some("refused".into())));
    assert_eq!(two.put("/stock/apple/orders/A", &json!({ "quantity": 3 })).status, 200);
    assert_eq!(
        one.get("/stock/apple").json(),
        json!({ "available": 3, "reserved": 7, "orders": ["A", "B"] })
    );
    let (token, outcome) = run();
    assert_eq!(outcome.as_deref(), Some("done"), "it is taken over under a greater token");
    assert!(token.as_deref() > problem["stored"].as_str());
}

/// As when all instances were moved from one way to the other, and a process had died before.
#[test]
fn a_run_without_a_token_takes_over_one_with_a_token_only_when_that_is_over_and_the_other_way_round() {
    let server = database();
    let [fenced, transaction] = ["fenced", "transaction"].map(|way| instance(&[way], &server.url()));
    assert_eq!(fenced.put("/stock/apple", &json!({ "available": 100 })).status, 204);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let raw = runtime.block_on(server.raw());
    let write = |sql: &str| runtime.block_on(raw.batch_execute(sql)).unwrap();
    for (number, (next, token)) in [(&transaction, "17"), (&fenced, "NULL")].into_iter().enumerate() {
        let order =
            |name: &str| next.put(&format!("/stock/apple/orders/{name}:{number}"), &json!({ "quantity": 1 }));
        let left = |name: &str, outcome: &str, started: &str, ended: &str| {
            write(&format!(
                "INSERT INTO job_executions VALUES ('reserve:apple', '{name}:{number}', 'dead', {token}, '{outcome}',
                 clock_timestamp() - interval '{started}', {ended})"
            ));
        };
        left("recent", "running", "30 s", "NULL");
        left("dead", "running", "61 s", "NULL");
        left("ended", "refused", "1 s", "clock_timestamp()");
        let refusal = order("recent");
        assert_eq!(refusal.status, 409, "{refusal:?}");
        assert_eq!(refusal.json()["type"], "urn:inventory-service:at-work");
        for name in ["dead", "ended"] {
            let answer = order(name);
            assert_eq!(answer.status, 200, "{name}: {answer:?}");
        }
        let runs = next.get("/jobs?job=reserve:apple").json();
        let outcome = |name: &str| {
            let run = runs.as_array().unwrap().iter().find(|run| run["run"] == format!("{name}:{number}"));
            run.unwrap()["outcome"].as_str().unwrap().to_owned()
        };
        assert_eq!(["recent", "dead", "ended"].map(outcome), ["running", "done", "done"]);
    }
    assert_eq!(fenced.get("/stock/apple").json()["reserved"], 4, "who is refused has reserved nothing");
}

/// Sends an order until it is served or there is too little for it, as a client should.
fn ordered(service: &Example, order: usize) -> Answer {
    in_time("the order has its turn", || {
        let answer = service.put(&format!("/stock/apple/orders/{order}"), &json!({ "quantity": 2 }));
        let too_few = answer.json()["type"] == "urn:inventory-service:too-few";
        (answer.status == 200 || too_few).then_some(answer)
    })
}

/// Twenty orders of two, each sent to both of two instances at once, and thirty on the shelf.
fn twenty_orders_twice(way: &str) {
    let server = database();
    let instances = two_instances(&[way], &server.url(), 30);
    let answers: Vec<(usize, Answer)> = thread::scope(|scope| {
        let requests: Vec<_> = (0..40)
            .map(|number| {
                let instance = &instances[number % 2];
                scope.spawn(move || (number / 2, ordered(instance, number / 2)))
            })
            .collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });

    let stock = instances[1].get("/stock/apple").json();
    assert_eq!((&stock["available"], &stock["reserved"]), (&json!(0), &json!(30)), "{stock}");
    let reserved = stock["orders"].as_array().unwrap();
    for (order, answer) in &answers {
        let expected = if reserved.contains(&json!(order.to_string())) { 200 } else { 409 };
        assert_eq!(answer.status, expected, "order {order}: {answer:?}");
    }
    let fresh = answers.iter().filter(|(_, answer)| answer.status == 200 && answer.json()["before"] == false);
    assert_eq!(fresh.count(), 15, "each order was reserved once and answered twice");
    let order = format!("/stock/apple/orders/{}", reserved[0].as_str().unwrap());
    assert_eq!(instances[0].put(&order, &json!({ "quantity": 3 })).status, 422, "another order with its id");

    let runs = instances[0].get("/jobs?job=reserve:apple").json();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), 15, "one row for each run");
    assert!(runs.iter().all(|run| run["outcome"] == "done" && !run["ended_at"].is_null()), "{runs:?}");
    let tokens: Vec<Option<&str>> = runs.iter().map(|run| run["token"].as_str()).collect();
    if way == "transaction" {
        assert!(tokens.iter().all(Option::is_none), "{tokens:?}");
    } else {
        assert!(tokens.windows(2).all(|pair| pair[0] > pair[1]), "the last one first: {tokens:?}");
    }
}

#[test]
fn behind_the_fence_an_order_that_is_sent_twice_is_reserved_once() {
    twenty_orders_twice("fenced");
}

#[test]
fn in_a_transaction_an_order_that_is_sent_twice_is_reserved_once() {
    twenty_orders_twice("transaction");
}

#[test]
fn what_cannot_be_reserved_is_refused_with_the_reason() {
    let server = database();
    let service = instance(&["fenced"], &server.url());
    let refusal = |path: &str, quantity: u32| {
        let answer = service.put(path, &json!({ "quantity": quantity }));
        assert_eq!(answer.content_type, "application/problem+json");
        (answer.status, answer.json()["type"].as_str().unwrap().to_owned())
    };
    assert_eq!(refusal("/stock/pear/orders/1", 1), (404, "urn:inventory-service:unknown-sku".into()));
    assert_eq!(service.put("/stock/apple", &json!({ "available": 1 })).status, 204);
    assert_eq!(refusal("/stock/apple/orders/1", 2), (409, "urn:inventory-service:too-few".into()));
    assert_eq!(refusal("/stock/apple/orders/1", 0), (422, "urn:inventory-service:quantity".into()));
    for order in ["/stock/pe%00ar/orders/1", "/stock/apple/orders/%00"] {
        assert_eq!(refusal(order, 1), (422, "urn:inventory-service:name".into()));
    }
    assert_eq!(service.get("/stock/pear").status, 404);
    // A shelf that is there is not overwritten past the fence.
    assert_eq!(service.put("/stock/apple", &json!({ "available": 9 })).status, 204);
    assert_eq!(service.get("/stock/apple").json()["available"], 1);
}
