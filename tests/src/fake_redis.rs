//! A server that speaks Redis and refuses what a single real server cannot be made to refuse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Grants every lock to whoever asks, unless it is told to refuse. It ends on drop.
#[derive(Debug)]
pub struct FakeRedis {
    port: u16,
    state: Arc<Mutex<State>>,
    acceptor: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    refusal: Option<String>,
    tells_time: bool,
    asked: HashMap<String, u64>,
}

impl FakeRedis {
    /// Starts one that grants.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let state = Arc::<Mutex<State>>::default();
        let known = Arc::clone(&state);
        let acceptor = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&known)));
            }
        });
        Self { port, state, acceptor }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Answers every script with this line from now on, such as `LOADING Redis is loading`.
    pub fn refuse(&self, line: &str) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refusal = Some(format!("-{line}\r\n"));
    }

    /// Grants again.
    pub fn grant(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refusal = None;
    }

    /// Knows what time it is from now on.
    pub fn tell_time(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).tells_time = true;
    }

    /// How often it has been asked for this command, in capitals.
    #[must_use]
    pub fn asked(&self, command: &str) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked.get(command).copied().unwrap_or_default()
    }
}

impl Drop for FakeRedis {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn serve(client: TcpStream, state: Arc<Mutex<State>>) {
    let mut client = BufReader::new(client);
    while let Some(words) = command(&mut client).await {
        let answer = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let name = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
            let answer = match name.as_str() {
                "TIME" if state.tells_time => "*2\r\n$10\r\n1700000000\r\n$1\r\n7\r\n".to_owned(),
                _ => answer(&name, &words, state.refusal.as_deref()),
            };
            *state.asked.entry(name).or_default() += 1;
            answer
        };
        if client.get_mut().write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// One command: an array of strings.
async fn command(client: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let words = length(client, '*').await?;
    let mut command = Vec::with_capacity(words);
    for _ in 0..words {
        let mut word = vec![0; length(client, '$').await? + 2];
        client.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        command.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(command)
}

async fn length(client: &mut BufReader<TcpStream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await.ok()?;
    line.strip_prefix(kind)?.trim_end().parse().ok()
}

/// Scripts are told apart by their second key: an acquire has the fence's there, a release the queue's.
fn answer(name: &str, words: &[String], refusal: Option<&str>) -> String {
    let keys = words.get(2).and_then(|keys| keys.parse().ok()).unwrap_or(0);
    let second = words.get(4).filter(|_| keys >= 2).map_or("", String::as_str);
    match (name, refusal) {
        ("HELLO", _) => "%1\r\n+proto\r\n:3\r\n".to_owned(),
        ("EVALSHA", Some(refusal)) => refusal.to_owned(),
        ("EVALSHA", None) if second.ends_with(":fencing") => "$16\r\n1700000000000000\r\n".to_owned(),
        ("EVALSHA", None) if second.ends_with(":queue") => ":1\r\n".to_owned(),
        ("EVALSHA", None) => format!("${keys}\r\n{}\r\n", "1".repeat(keys)),
        // As before version 7, so that every call is a script.
        ("SET", _) => "-ERR syntax error\r\n".to_owned(),
        ("SCRIPT", _) => "$4\r\nsha1\r\n".to_owned(),
        ("INFO", _) => "$0\r\n\r\n".to_owned(),
        ("SUBSCRIBE", _) => format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{}\r\n:1\r\n", words[1].len(), words[1]),
        _ => "+OK\r\n".to_owned(),
    }
}
