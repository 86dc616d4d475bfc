//! The mistakes are in `tests/ui`, one to a file, each beside what the compiler says of it.

use std::process::Command;

/// The compiler whose words the answers have. What others say is looked at in `tests/cases`: our sentences, and how
/// many errors there are.
pub const RECORDED: &str = "rustc 1.95.";

/// Whether the compiler in use is the one whose words the answers have.
///
/// # Panics
///
/// If the compiler does not tell its version.
#[must_use]
#[allow(clippy::expect_used, reason = "tests without a compiler have nothing to do")]
pub fn answers_are_recorded() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler tells its version");
    version.stdout.starts_with(RECORDED.as_bytes())
}
