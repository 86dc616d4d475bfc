//! Refusals as answers of web frameworks.

#[cfg(feature = "actix-web")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;
#[cfg(any(feature = "actix-web", feature = "axum", feature = "tonic"))]
mod problem;
#[cfg(feature = "tonic")]
pub(crate) mod tonic;
