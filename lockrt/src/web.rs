//! Refusals as answers of web frameworks.

#[cfg(feature = "axum")]
pub(crate) mod axum;
