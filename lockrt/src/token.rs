//! Who holds a lock, [`OwnerToken`], and which grant came later, [`FencingToken`].

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::OnceCell;

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
        // Writing to a string does not fail.
        let _ = write!(wire, "{}", Wire(self));
        wire
    }
}

/// [`OwnerToken::wire`], written where it is needed.
pub(crate) struct Wire<'a>(pub(crate) &'a OwnerToken);

impl fmt::Display for Wire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnerToken { owner, attempt, pid } = self.0;
        let Identity { label, random } = &*owner.0;
        write!(f, "{label}#{attempt}#{random}{pid:08x}{attempt:x}")
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
}

impl OwnerLabel {
    /// `text` cut to its bound, with everything replaced that is not a plain visible character.
    pub(crate) fn new(text: &str, random: ProcessRandom) -> Self {
        let plain = |c: char| if c.is_ascii_graphic() && c != '#' { c } else { '_' };
        let label = text.chars().take(MAX_LABEL_BYTES).map(plain).collect();
        Self(Arc::new(Identity { label, random: format!("{:0RANDOM_DIGITS$x}", random.0) }))
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
