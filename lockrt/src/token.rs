//! Who holds a lock, [`OwnerToken`], and which grant came later, [`FencingToken`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::OnceCell;

use crate::digits::Digits;

/// Longest owner label in bytes.
const MAX_LABEL_BYTES: usize = 96;
/// 128 bits as hexadecimal digits.
const RANDOM_DIGITS: usize = 32;

/// A number that rises with every grant of one key.
///
/// Send it with each write and let the store refuse a smaller one than it has seen: that stops an
/// owner that was paused past its lease, which no lease can
/// (<https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>). Tokens of
/// different keys or backends say nothing about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token of this number; for backends, and for stores that read one back.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The secret of one acquisition: a public label and attempt id, and a nonce that nobody else has.
///
/// A lock service compares the whole of it before it renews or releases. `Debug` and `Display`
/// show the public half only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerToken {
    owner: OwnerLabel,
    attempt: u64,
    pid: u32,
}

impl OwnerToken {
    /// A token that no other acquisition, process or machine has, of an owner in the process `pid`.
    pub(crate) fn fresh(owner: &OwnerLabel, pid: u32) -> Self {
        static ATTEMPTS: AtomicU64 = AtomicU64::new(1);
        // A forked child shares the random half and the counter with its parent, not the pid.
        Self { owner: owner.clone(), attempt: ATTEMPTS.fetch_add(1, Ordering::Relaxed), pid }
    }

    /// The label of the owner, `service@host:pid` unless set otherwise.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.owner.0.label
    }

    /// The number of this acquisition within its process.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// What a lock service stores: `<label>#<attempt>#<nonce>`. This is the only way to the
    /// secret; never log it.
    #[must_use]
    pub fn wire(&self) -> String {
        // More than label and random half there are a counter twice, a pid and two separators.
        let mut wire = String::with_capacity(self.owner.0.label.len() + RANDOM_DIGITS + 48);
        self.spell(|piece| wire.push_str(piece));
        wire
    }

    /// [`wire`](Self::wire) piece by piece, to be written where it is needed.
    pub(crate) fn spell(&self, mut write: impl FnMut(&str)) {
        let Identity { head, random, pid, tail, .. } = &*self.owner.0;
        write(head);
        write(Digits::decimal(self.attempt).as_str());
        if self.pid == *pid {
            write(tail);
        } else {
            write("#");
            write(random);
            write(Digits::hex(u64::from(self.pid), 8).as_str());
        }
        write(Digits::hex(self.attempt, 1).as_str());
    }
}

impl fmt::Display for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.label(), self.attempt)
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({self})")
    }
}

/// What all owners of one manager share: a name by which operators recognise them, and the random
/// half of their secrets, put into digits once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnerLabel(Arc<Identity>);

#[derive(PartialEq, Eq, Hash)]
struct Identity {
    label: String,
    random: String,
    /// The process that made it; a forked child has another one.
    pid: u32,
    /// What stands ahead of the number of an attempt, and behind it, where that process makes it.
    head: String,
    tail: String,
}

impl OwnerLabel {
    /// `text` cut to its bound, with everything replaced that is not a plain visible character.
    pub(crate) fn new(text: &str, random: ProcessRandom) -> Self {
        let plain = |c: char| if c.is_ascii_graphic() && c != '#' { c } else { '_' };
        let label: String = text.chars().take(MAX_LABEL_BYTES).map(plain).collect();
        let (random, pid) = (format!("{:0RANDOM_DIGITS$x}", random.0), std::process::id());
        let (head, tail) = (format!("{label}#"), format!("#{random}{pid:08x}"));
        Self(Arc::new(Identity { label, random, pid, head, tail }))
    }

    /// `service@host:pid`, from the program's file name and the system's host name.
    pub(crate) fn of_process(random: ProcessRandom) -> Self {
        let program = std::env::current_exe().ok();
        let service = program.as_deref().and_then(|path| path.file_stem()).and_then(|s| s.to_str());
        let label = format!(
            "{}@{}:{}",
            service.unwrap_or("service"),
            host().as_deref().unwrap_or("host"),
            std::process::id()
        );
        Self::new(&label, random)
    }
}

impl fmt::Debug for OwnerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerLabel({})", self.0.label)
    }
}

#[cfg(target_os = "linux")]
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

#[cfg(not(target_os = "linux"))]
fn host() -> Option<String> {
    std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok()
}

/// 128 bits from the system, drawn once per process.
#[derive(Clone, Copy)]
pub(crate) struct ProcessRandom(u128);

impl ProcessRandom {
    /// The bits of this process, or the system's reason for giving none.
    pub(crate) fn get() -> Result<Self, getrandom::Error> {
        static DRAWN: OnceCell<u128> = OnceCell::new();
        let drawn = DRAWN.get_or_try_init(|| {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes)?;
            Ok(u128::from_ne_bytes(bytes))
        })?;
        Ok(Self(*drawn))
    }
}

impl fmt::Debug for ProcessRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessRandom(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> ProcessRandom {
        ProcessRandom::get().unwrap()
    }

    fn token() -> OwnerToken {
        OwnerToken::fresh(&OwnerLabel::new("shop@eu 1#x:7", random()), 7)
    }

    #[test]
    fn two_tokens_are_never_the_same() {
        let (first, second) = (token(), token());
        assert_ne!(first, second);
        assert_ne!(first.wire(), second.wire());
    }

    #[test]
    fn the_wire_form_is_label_attempt_and_nonce() {
        // The process that made the label, and one that was forked from it.
        for pid in [std::process::id(), 7] {
            let token = OwnerToken { pid, ..token() };
            let (label, attempt, random) = (token.label(), token.attempt(), &token.owner.0.random);
            assert_eq!(token.wire(), format!("{label}#{attempt}#{random}{pid:08x}{attempt:x}"));
        }
    }

    #[test]
    fn the_nonce_shows_in_the_wire_form_only() {
        let token = token();
        let wire = token.wire();
        let (public, nonce) = wire.rsplit_once('#').unwrap();
        assert_eq!(public, token.to_string());
        assert!(nonce.len() > 40);
        assert!(!format!("{token} {token:?} {:?}", token.owner).contains(&nonce[..8]));
    }

    #[test]
    fn a_child_that_was_forked_has_other_secrets() {
        let (parent, mut child) = (token(), token());
        (child.attempt, child.pid) = (parent.attempt, parent.pid + 1);
        assert_ne!(parent.wire(), child.wire());
    }

    #[test]
    fn a_label_cannot_add_fields_or_break_a_line() {
        assert_eq!(token().label(), "shop@eu_1_x:7");
        assert_eq!(OwnerLabel::new(&"x".repeat(500), random()).0.label.len(), MAX_LABEL_BYTES);
        assert!(OwnerLabel::of_process(random()).0.label.contains('@'));
    }
}
