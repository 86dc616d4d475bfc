//! A system that gives no more threads.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::process::Command;

use lockrt::{LockManager, Memory, SetupError};

/// Set where no thread can be started, since none of this size fits anywhere.
const STACK: (&str, &str) = ("RUST_MIN_STACK", "70368744177664");

#[tokio::test]
async fn a_manager_that_gets_no_thread_says_so_also_within_a_runtime() {
    if std::env::var(STACK.0).is_ok_and(|size| size == STACK.1) {
        let refused = LockManager::builder().build(Memory::new());
        assert!(matches!(refused, Err(SetupError::System { .. })), "{refused:?}");
        return;
    }
    let name = "a_manager_that_gets_no_thread_says_so_also_within_a_runtime";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name]).env(STACK.0, STACK.1).output().unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&child.stderr)
    );
}
