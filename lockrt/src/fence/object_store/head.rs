//! The line before the data of a fenced object: [`Head`].

use std::fmt;

use crate::fence::marks::Marks;

/// How many bytes stand before the data.
pub const HEAD_BYTES: usize = 73;

const MAGIC: &str = "lockrt-fence/1";

/// What a fenced object knows of its holders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) marks: Marks,
    pub(super) has_data: bool,
    /// By which a writer finds out that its put was done.
    pub(super) last_write: Option<WriteId>,
}

/// The name of one write, different from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteId(u128);

impl WriteId {
    pub(super) fn draw() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        // 0 is none.
        Ok(Self(u128::from_ne_bytes(bytes) | 1))
    }
}

impl Head {
    /// The head that these bytes are; none if they are something else.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let mut words = line.split(' ');
        let (magic, seen) = (words.next()?, words.next()?.parse().ok()?);
        let (written, has_data) = (flag(words.next()?, "w")?, flag(words.next()?, "d")?);
        let id = u128::from_str_radix(words.next()?, 16).ok()?;
        let last_write = (id > 0).then_some(WriteId(id));
        let head = Self { marks: Marks::stored(seen, written)?, has_data, last_write };
        // Numbers may be written in more ways than one; ours is one.
        (magic == MAGIC && head.to_string().as_bytes() == bytes).then_some(head)
    }
}

fn flag(word: &str, set: &str) -> Option<bool> {
    match word {
        "-" => Some(false),
        word => (word == set).then_some(true),
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.marks.seen().map_or(0, crate::token::FencingToken::get);
        let written = if self.marks.written() { 'w' } else { '-' };
        let data = if self.has_data { 'd' } else { '-' };
        let id = self.last_write.map_or(0, |WriteId(id)| id);
        writeln!(f, "{MAGIC} {seen:020} {written} {data} {id:032x}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for seen in [1, 1_790_000_000_000_000, u64::MAX] {
            for (written, has_data) in [(false, false), (true, true), (false, true)] {
                let id = has_data.then(|| WriteId::draw().unwrap());
                let head = Head { marks: Marks::stored(seen, written).unwrap(), has_data, last_write: id };
                let line = head.to_string();
                assert_eq!(line.len(), HEAD_BYTES, "{line}");
                assert_eq!(Head::read(line.as_bytes()), Some(head));
            }
        }
    }

    #[test]
    fn what_is_almost_a_head_is_none() {
        let marks = Marks::stored(34, true).unwrap();
        let line = Head { marks, has_data: true, last_write: Some(WriteId(0xabc)) }.to_string();
        let mangled = [
            line.replace("fence/1", "fence/2"),
            line.replace("34", "+4"),
            line.replace("34", "00"),
            line.replace(" w ", " r "),
            line.replace("abc", "ABC"),
            line.replace('\n', " "),
            line[1..].to_owned(),
            format!("{line}d"),
            "0".repeat(HEAD_BYTES),
            String::new(),
        ];
        for bytes in mangled {
            assert_eq!(Head::read(bytes.as_bytes()), None, "{bytes}");
        }
        assert_eq!(Head::read(&[0xff; HEAD_BYTES]), None);
    }
}
