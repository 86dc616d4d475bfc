//! Harness of the test suites: real servers, a proxy that misbehaves on purpose.

#[cfg(doctest)]
mod docs;
