//! Who holds a lock, [`OwnerToken`], and which grant came later, [`FencingToken`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::OnceCell;

/// Longest owner label in bytes.
const MAX_LABEL_BYTES: usize = 96;

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
    label: Arc<str>,
    attempt: u64,
    pid: u32,
    random: u128,
}

impl OwnerToken {
    /// A token that no other acquisition, process or machine has.
    pub(crate) fn fresh(label: &OwnerLabel, random: ProcessRandom) -> Self {
        static ATTEMPTS: AtomicU64 = AtomicU64::new(1);
        Self {
            label: Arc::clone(&label.0),
            attempt: ATTEMPTS.fetch_add(1, Ordering::Relaxed),
            // A forked child shares the random half and the counter with its parent, not the pid.
            pid: std::process::id(),
            random: random.0,
        }
    }

    /// The label of the owner, `service@host:pid` unless set otherwise.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
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
        let Self { label, attempt, pid, random } = self;
        format!("{label}#{attempt}#{random:032x}{pid:08x}{attempt:x}")
    }
}

impl fmt::Display for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.label, self.attempt)
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({self})")
    }
}

/// A name by which operators recognise an owner.
#[derive(Clone, Debug)]
pub(crate) struct OwnerLabel(Arc<str>);

impl OwnerLabel {
    /// `text` cut to its bound, with everything replaced that is not a plain visible character.
    pub(crate) fn new(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_graphic() && c != '#' { c } else { '_' };
        Self(text.chars().take(MAX_LABEL_BYTES).map(plain).collect::<String>().into())
    }

    /// `service@host:pid`, from the program's file name and the system's host name.
    pub(crate) fn of_process() -> Self {
        let program = std::env::current_exe().ok();
        let service = program.as_deref().and_then(|path| path.file_stem()).and_then(|s| s.to_str());
        Self::new(&format!(
            "{}@{}:{}",
            service.unwrap_or("service"),
            host().as_deref().unwrap_or("host"),
            std::process::id()
        ))
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

    fn token() -> OwnerToken {
        OwnerToken::fresh(&OwnerLabel::new("shop@eu 1#x:7"), ProcessRandom::get().unwrap())
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
        assert!(!format!("{token} {token:?}").contains(nonce));
    }

    #[test]
    fn a_label_cannot_add_fields_or_break_a_line() {
        assert_eq!(token().label(), "shop@eu_1_x:7");
        assert_eq!(OwnerLabel::new(&"x".repeat(500)).0.len(), MAX_LABEL_BYTES);
        assert!(OwnerLabel::of_process().0.contains('@'));
    }
}
