//! Harness of the test suites: real servers, a proxy that misbehaves on purpose.
