//! Nothing: what counts is the test beside it.
