//! Distributed locks for async services.
