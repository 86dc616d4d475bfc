//! The proxy does to a connection what its toxics say, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lockrt_tests::{End, Fault, Proxy, Toxic, Way, soon, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server that sends back what it gets, and remembers it.
struct Echo {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let echo = Self { port: listener.local_addr().unwrap().port(), heard: Arc::default() };
        let heard = Arc::clone(&echo.heard);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let heard = Arc::clone(&heard);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        heard.lock().unwrap().extend(&buffer[..length]);
                        if stream.write_all(&buffer[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        echo
    }

    fn heard(&self) -> Vec<u8> {
        self.heard.lock().unwrap().clone()
    }
}

async fn started() -> (Echo, Proxy) {
    let echo = Echo::start().await;
    let proxy = Proxy::start(echo.port, 7).await;
    (echo, proxy)
}

async fn connected(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// What comes back for `request`; it is as long.
async fn asked(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).await.unwrap();
    let mut answer = vec![0; request.len()];
    soon("the answer", stream.read_exact(&mut answer)).await.unwrap();
    answer
}

/// What comes until the connection ends, and how it ends.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut rest = Vec::new();
    let ended = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
    (rest, ended.err().map(|error| error.kind()))
}

#[tokio::test]
async fn without_toxics_everything_arrives_as_it_was_sent() {
    let (echo, proxy) = started().await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let (mut from, mut to) = connected(&proxy).await.into_split();
    let mut back = vec![0; sent.len()];
    let (read, written) = tokio::join!(from.read_exact(&mut back), to.write_all(&sent));
    read.unwrap();
    written.unwrap();
    assert!(back == sent && echo.heard() == sent);
}

#[tokio::test]
async fn a_latency_delays_its_own_direction() {
    let (echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    proxy.add([Toxic::Latency { way: Way::Request, ms: 60..61 }]);
    let start = Instant::now();
    stream.write_all(b"a").await.unwrap();
    until("the request arrives", async || echo.heard() == b"a").await;
    assert!(start.elapsed() >= Duration::from_millis(60), "{:?}", start.elapsed());
    stream.read_exact(&mut [0]).await.unwrap();
    proxy.clear();
    proxy.add([Toxic::Latency { way: Way::Answer, ms: 500..501 }]);
    let start = Instant::now();
    stream.write_all(b"b").await.unwrap();
    until("the request arrives", async || echo.heard() == b"ab").await;
    let arrived = start.elapsed();
    stream.read_exact(&mut [0]).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(500) && arrived < start.elapsed() / 2, "{arrived:?}");
    proxy.clear();
    let start = Instant::now();
    asked(&mut stream, b"c").await;
    assert!(start.elapsed() < Duration::from_millis(250), "{:?}", start.elapsed());
}

#[tokio::test]
async fn jitter_keeps_the_order() {
    let (_echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    proxy.delay(10..40);
    let sent: Vec<u8> = (0..100).collect();
    let start = Instant::now();
    for byte in &sent {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut back = vec![0; sent.len()];
    soon("all of it", stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, sent);
    assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
}

/// The shorter of two round trips, by which other work on this machine disturbs least.
async fn round_trip(stream: &mut TcpStream) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..2 {
        let start = Instant::now();
        asked(stream, b"x").await;
        least = least.min(start.elapsed());
    }
    least
}

#[tokio::test]
async fn a_distance_is_the_connections_own_and_the_same_for_the_same_seed() {
    let echo = Echo::start().await;
    let mut distances = Vec::new();
    for _ in 0..2 {
        let proxy = Proxy::start(echo.port, 11).await;
        proxy.add([Toxic::Distance { way: Way::Answer, ms: 0..200 }]);
        for _ in 0..4 {
            distances.push(round_trip(&mut connected(&proxy).await).await);
        }
    }
    let (first, second) = distances.split_at(4);
    for (one, other) in first.iter().zip(second) {
        assert!(one.abs_diff(*other) < Duration::from_millis(40), "{distances:?}");
    }
    let (near, far) = (first.iter().min().unwrap(), first.iter().max().unwrap());
    assert!(*far > *near + Duration::from_millis(60), "{distances:?}");
}

#[tokio::test]
async fn what_trickles_arrives_in_parts_and_whole() {
    let (_echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    proxy.add([Toxic::Trickle { way: Way::Answer, bytes: 10, every: Duration::from_millis(20) }]);
    let start = Instant::now();
    stream.write_all(&[5; 100]).await.unwrap();
    let (mut back, mut first) = (Vec::<u8>::new(), None);
    while back.len() < 100 {
        let mut part = [0; 100];
        let length = soon("a part", stream.read(&mut part)).await.unwrap();
        first.get_or_insert(length);
        back.extend(&part[..length]);
    }
    // Ten parts have nine pauses between them.
    assert!(start.elapsed() >= Duration::from_millis(180), "{:?}", start.elapsed());
    assert!(back == [5; 100] && first < Some(100), "{first:?}");
}

async fn silent(stream: &mut TcpStream) -> bool {
    tokio::time::timeout(Duration::from_millis(50), stream.read(&mut [0])).await.is_err()
}

#[tokio::test]
async fn a_lost_answer_was_heard_and_a_lost_request_was_not() {
    let (echo, proxy) = started().await;
    for (fault, way) in [(Fault::DropReplies, Way::Answer), (Fault::DropRequests, Way::Request)] {
        for by_fault in [false, true] {
            let (mut stream, before) = (connected(&proxy).await, echo.heard().len());
            asked(&mut stream, b"1").await;
            if by_fault {
                proxy.set(fault.clone());
            } else {
                proxy.add([Toxic::Lose { way }]);
            }
            stream.write_all(b"2").await.unwrap();
            if way == Way::Answer {
                until("the request arrives", async || echo.heard().len() == before + 2).await;
            }
            assert!(silent(&mut stream).await);
            proxy.clear();
            assert_eq!(asked(&mut connected(&proxy).await, b"3").await, b"3", "others pass");
            let heard = echo.heard();
            assert_eq!(&heard[before..], if way == Way::Answer { b"123".as_slice() } else { b"13" });
        }
    }
}

#[tokio::test]
async fn nothing_arrives_after_a_gap_though_the_connection_is_open() {
    let (echo, proxy) = started().await;
    for fault in [Fault::DropReplies, Fault::DropRequests, Fault::Silence] {
        let mut stream = connected(&proxy).await;
        asked(&mut stream, b"a").await;
        proxy.set(fault.clone());
        stream.write_all(b"b").await.unwrap();
        assert!(silent(&mut stream).await);
        proxy.set(Fault::None);
        let before = echo.heard().len();
        stream.write_all(b"c").await.unwrap();
        if fault == Fault::DropReplies {
            until("the request arrives", async || echo.heard().len() == before + 1).await;
        }
        assert!(silent(&mut stream).await);
        assert_eq!(echo.heard().len() > before, fault == Fault::DropReplies);
    }
    assert_eq!(asked(&mut connected(&proxy).await, b"d").await, b"d");
}

#[tokio::test]
async fn what_was_stalled_arrives_late_and_in_order() {
    let (echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    proxy.add([Toxic::Stall { way: Way::Answer }]);
    stream.write_all(b"a").await.unwrap();
    until("the request arrives", async || echo.heard() == b"a").await;
    assert!(silent(&mut stream).await);
    proxy.clear();
    stream.read_exact(&mut [0]).await.unwrap();
    for way in [Way::Request, Way::Answer] {
        proxy.set(Fault::Stall);
        proxy.add([Toxic::Stall { way }]);
        let before = echo.heard().len();
        stream.write_all(b"b").await.unwrap();
        stream.write_all(b"c").await.unwrap();
        assert!(silent(&mut stream).await);
        assert_eq!(echo.heard().len(), before);
        proxy.set(Fault::None);
        assert!(silent(&mut stream).await);
        proxy.clear();
        let mut late = [0; 2];
        soon("what was sent", stream.read_exact(&mut late)).await.unwrap();
        assert_eq!(&late, b"bc");
    }
}

#[tokio::test]
async fn a_limit_ends_each_connection_after_so_many_bytes() {
    let (echo, proxy) = started().await;
    for (end, told) in [(End::Close, None), (End::Reset, Some(ErrorKind::ConnectionReset))] {
        proxy.add([Toxic::Limit { way: Way::Answer, bytes: 7, end }]);
        for _ in 0..2 {
            let mut stream = connected(&proxy).await;
            assert_eq!(asked(&mut stream, b"1234").await, b"1234");
            let before = echo.heard().len();
            stream.write_all(b"56789").await.unwrap();
            assert_eq!(rest(&mut stream).await, (b"567".to_vec(), told));
            assert_eq!(echo.heard().len(), before + 5, "the server has heard all of it");
        }
        proxy.clear();
    }
}

#[tokio::test]
async fn an_answer_is_cut_or_reset_once() {
    let (echo, proxy) = started().await;
    let reset = Some(ErrorKind::ConnectionReset);
    let faults = [(Fault::CutAtReply, "", None), (Fault::ResetInReply { after_bytes: 3 }, "abc", reset)];
    for (fault, arrives, told) in faults {
        let mut stream = connected(&proxy).await;
        asked(&mut stream, b"before").await;
        proxy.set(fault);
        let before = echo.heard().len();
        stream.write_all(b"abcdef").await.unwrap();
        assert_eq!(rest(&mut stream).await, (arrives.as_bytes().to_vec(), told));
        assert_eq!(echo.heard().len(), before + 6, "applied");
        assert_eq!(asked(&mut connected(&proxy).await, b"after").await, b"after");
    }
}

#[tokio::test]
async fn a_cut_request_arrives_after_its_client_is_gone() {
    let (echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    asked(&mut stream, b"a").await;
    proxy.set(Fault::CutAtRequest { deliver_after: Duration::from_millis(150) });
    let start = Instant::now();
    stream.write_all(b"b").await.unwrap();
    assert_eq!(rest(&mut stream).await, (Vec::new(), None));
    assert!(start.elapsed() < Duration::from_millis(100) || echo.heard() == b"ab", "{:?}", start.elapsed());
    until("the request arrives", async || echo.heard() == b"ab").await;
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    assert_eq!(asked(&mut connected(&proxy).await, b"c").await, b"c");
}

#[tokio::test]
async fn new_connections_are_refused_and_open_ones_are_cut() {
    let (_echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    asked(&mut stream, b"a").await;
    proxy.set(Fault::Refuse);
    assert_eq!(asked(&mut stream, b"b").await, b"b");
    assert_eq!(rest(&mut connected(&proxy).await).await.0, b"");
    proxy.cut();
    assert_eq!(rest(&mut stream).await.0, b"");
    proxy.clear();
    assert_eq!(asked(&mut connected(&proxy).await, b"c").await, b"c");
    assert_eq!(proxy.accepted(), 3);
}

#[tokio::test]
async fn toxics_add_up() {
    let (_echo, proxy) = started().await;
    let mut stream = connected(&proxy).await;
    proxy.delay(40..41);
    proxy.add([
        Toxic::Latency { way: Way::Request, ms: 40..41 },
        Toxic::Limit { way: Way::Answer, bytes: 30, end: End::Reset },
        Toxic::Trickle { way: Way::Answer, bytes: 10, every: Duration::from_millis(40) },
    ]);
    let start = Instant::now();
    stream.write_all(&[1; 100]).await.unwrap();
    assert_eq!(rest(&mut stream).await, (vec![1; 30], Some(ErrorKind::ConnectionReset)));
    // 80 ms there, 40 ms back, and two pauses between three parts.
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}

#[tokio::test]
async fn new_connections_follow_the_proxy_to_another_port() {
    let (one, proxy) = started().await;
    let other = Echo::start().await;
    let mut stays = connected(&proxy).await;
    asked(&mut stays, b"a").await;
    proxy.lead_to(other.port);
    asked(&mut connected(&proxy).await, b"b").await;
    asked(&mut stays, b"c").await;
    assert_eq!((one.heard(), other.heard()), (b"ac".to_vec(), b"b".to_vec()));
}
