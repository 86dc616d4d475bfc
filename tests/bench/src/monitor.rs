//! What a server is asked, as its `MONITOR` tells: each command that a client sent, and not what a script calls.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::Result;

/// A connection that listens.
pub(crate) struct Monitor {
    lines: BufReader<TcpStream>,
}

/// One command of a client.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Address and port of the client.
    pub(crate) client: String,
    /// The command's name and arguments.
    pub(crate) words: Vec<Vec<u8>>,
}

impl Monitor {
    pub(crate) fn open(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(stream);
        let mut greeting = String::new();
        lines.read_line(&mut greeting)?;
        if greeting.trim_end() == "+OK" { Ok(Self { lines }) } else { Err(greeting.into()) }
    }

    /// The next command of a client; none when the connection has ended.
    pub(crate) fn next(&mut self) -> Result<Option<Asked>> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            if let Some(asked) = Asked::read(&line) {
                return Ok(Some(asked));
            }
        }
    }

    /// Counts the commands from here on, on a thread of its own.
    pub(crate) fn count(mut self) -> Result<Count> {
        let stream = self.lines.get_ref().try_clone()?;
        stream.set_read_timeout(None)?;
        let asked = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&asked);
        thread::spawn(move || {
            while let Ok(Some(_)) = self.next() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Count { asked, stream })
    }
}

/// How many commands clients have sent since.
pub(crate) struct Count {
    asked: Arc<AtomicU64>,
    stream: TcpStream,
}

impl Count {
    pub(crate) fn so_far(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Asked {
    /// Reads `+<seconds> [<database> <client>] "word" "word"..`; none for what a script has called.
    fn read(line: &str) -> Option<Self> {
        let (head, words) = line.strip_prefix('+')?.split_once("] ")?;
        let client = head.rsplit_once(' ')?.1;
        (client != "lua").then(|| Self { client: client.into(), words: unquoted(words.trim_end()) })
    }
}

/// The words between quotes, with Redis's escapes resolved.
fn unquoted(text: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut bytes = text.bytes();
    while bytes.by_ref().any(|byte| byte == b'"') {
        let mut word = Vec::new();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => break,
                b'\\' => match bytes.next() {
                    Some(b'n') => word.push(b'\n'),
                    Some(b'r') => word.push(b'\r'),
                    Some(b't') => word.push(b'\t'),
                    Some(b'a') => word.push(7),
                    Some(b'b') => word.push(8),
                    Some(b'x') => {
                        let digits = [bytes.next(), bytes.next()].map(Option::unwrap_or_default);
                        let digits = String::from_utf8_lossy(&digits).into_owned();
                        word.push(u8::from_str_radix(&digits, 16).unwrap_or_default());
                    }
                    Some(other) => word.push(other),
                    None => break,
                },
                other => word.push(other),
            }
        }
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes() {
        let line = "+1339518083.107412 [0 127.0.0.1:60866] \"SET\" \"a\\\"b\\\\c\" \"\\x00\\n\"\n";
        let asked = Asked::read(line).unwrap();
        assert_eq!(asked.client, "127.0.0.1:60866");
        assert_eq!(asked.words, [b"SET".to_vec(), b"a\"b\\c".to_vec(), b"\x00\n".to_vec()]);
    }

    #[test]
    fn what_a_script_calls_is_passed_over() {
        assert!(Asked::read("+1339518083.107412 [0 lua] \"get\" \"a\"\n").is_none());
        assert!(Asked::read("+OK\r\n").is_none());
    }
}
