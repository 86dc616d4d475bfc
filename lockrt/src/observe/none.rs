//! Without the feature `metrics` nobody counts, and nothing is kept for it.

use std::time::Duration;

use crate::clock::Moment;

pub(crate) const COUNTS: bool = false;

#[derive(Debug, Default)]
pub(crate) struct Holding(());

#[allow(clippy::unused_self, reason = "the twin in `numbers` has something to keep")]
impl Holding {
    pub(crate) fn begin(&self, _: Moment, _: Duration) {}
}

#[derive(Debug)]
pub(crate) struct Waits;

impl Waits {
    pub(crate) fn begin(_: &'static str) -> Self {
        Self
    }
}

pub(super) fn granted(_: &'static str, _: &'static str, _: Duration) {}

pub(super) fn acquired(_: &'static str, _: &'static str, _: &'static str, _: Duration) {}

pub(crate) fn given_back(_: &'static str, _: &'static str, _: &Holding, _: Moment, _: bool) {}

pub(super) fn renewal(_: &'static str, _: &'static str) {}

pub(super) fn lost(_: &'static str, _: &'static str) {}

pub(super) fn release(_: &'static str, _: &'static str) {}

pub(super) fn fence_refused(_: &'static str) {}

pub(crate) fn keeper_late(_: Duration) {}
