//! Empty: this crate is a list of dependencies.
