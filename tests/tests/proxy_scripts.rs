//! Faults that follow one another in the proxy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashSet;
use std::mem::discriminant;
use std::time::{Duration, Instant};

use lockrt_tests::{Dice, Proxy, RedisServer, Step, Toxic, Way, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const LOST: Toxic = Toxic::Lose { way: Way::Answer };

async fn connected(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap()
}

/// Whether a `PING` is answered within 100 ms.
async fn answered(stream: &mut TcpStream) -> bool {
    let _ = stream.write_all(b"PING\r\n").await;
    let mut pong = [0; 7];
    let answer = tokio::time::timeout(Duration::from_millis(100), stream.read_exact(&mut pong)).await;
    matches!(answer, Ok(Ok(_)))
}

#[tokio::test]
async fn a_step_lasts_for_its_number_of_requests() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    proxy.play([
        Step::requests(2, []),
        Step::requests(3, [LOST]),
        Step::requests(1, []),
        Step::requests(1, [LOST]),
    ]);
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(answered(&mut connected(&proxy).await).await);
    }
    assert_eq!(answers, [true, true, false, false, false, true, false, true]);
}

#[tokio::test]
async fn a_step_lasts_for_its_time() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    let start = Instant::now();
    let time = Duration::from_millis(300);
    proxy.play([Step::lasting(time, [LOST]), Step::lasting(time, []), Step::lasting(time, [Toxic::Refuse])]);
    until("the first step is over", async || answered(&mut connected(&proxy).await).await).await;
    assert!(start.elapsed() >= time, "{:?}", start.elapsed());
    let open = async || answered(&mut connected(&proxy).await).await;
    let refused = async || matches!(connected(&proxy).await.read(&mut [0]).await, Ok(0));
    tokio::time::sleep_until((start + time * 2 + time / 10).into()).await;
    if start.elapsed() < time * 3 {
        assert!(refused().await || start.elapsed() >= time * 3, "{:?}", start.elapsed());
    }
    until("the script is over", open).await;
    assert!(start.elapsed() >= time * 3, "{:?}", start.elapsed());
}

#[tokio::test]
async fn another_script_takes_the_place_of_the_first() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port(), 1).await;
    proxy.play([Step::requests(100, [LOST])]);
    assert!(!answered(&mut connected(&proxy).await).await);
    proxy.play([]);
    assert!(answered(&mut connected(&proxy).await).await);
}

#[test]
fn random_steps_are_repeated_by_their_seed_and_of_every_kind() {
    let steps = |seed| {
        let mut dice = Dice::new(seed);
        (0..20).map(|_| Step::random(&mut dice)).collect::<Vec<_>>()
    };
    assert_eq!(steps(3), steps(3));
    assert_ne!(steps(3), steps(4));
    let mut dice = Dice::new(5);
    let kinds: HashSet<_> = (0..200).map(|_| discriminant(&Toxic::random(&mut dice))).collect();
    assert_eq!(kinds.len(), 8);
}
