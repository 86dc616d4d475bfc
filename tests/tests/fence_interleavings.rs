//! Three holders of one lock, each of which may be paused at any step: without a registration before
//! the first read an update is lost, with it none is.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

#[path = "fence_interleavings/objects.rs"]
mod objects;
#[path = "fence_interleavings/play.rs"]
mod play;
#[path = "fence_interleavings/servers.rs"]
mod servers;

use std::cell::Cell;

use lockrt::FencingToken;
use lockrt::fence::{Fence, FenceError};
use object_store::memory::InMemory;

use crate::objects::{InAttributes, lost_on_objects};
use crate::play::{Counter, Idiom, is_the_classic, lost_update};
use crate::servers::{behind_a_column, on_postgres, on_redis};

#[derive(Default)]
struct InProcess {
    fence: Fence,
    value: Cell<u64>,
}

impl Counter for InProcess {
    async fn register(&self, token: FencingToken) -> Result<(), FenceError> {
        self.fence.register("n", token)
    }

    async fn read(&self) -> u64 {
        self.value.get()
    }

    async fn write(&self, token: FencingToken, idiom: Idiom, value: u64) -> Result<(), FenceError> {
        let write = || self.value.set(value);
        match idiom {
            Idiom::Write => self.fence.write("n", token, write),
            Idiom::Once => self.fence.write_once("n", token, write),
        }
    }
}

fn in_process(cases: u32, rules: (Idiom, bool)) -> Option<Vec<usize>> {
    lost_update(cases, rules, async || InProcess::default())
}

/// An order that loses an update was found, and it is the one that a registration prevents.
fn is_found(found: Option<Vec<usize>>) {
    let Some(found) = found else { panic!("no update is lost") };
    assert!(is_the_classic(&found), "{found:?}");
}

#[test]
fn in_process_a_write_without_registration_loses_an_update() {
    is_found(in_process(1_000, (Idiom::Write, false)));
}

#[test]
fn in_process_one_write_per_grant_without_registration_loses_an_update() {
    is_found(in_process(1_000, (Idiom::Once, false)));
}

#[test]
fn in_process_a_write_after_a_registration_loses_none() {
    assert_eq!(in_process(5_000, (Idiom::Write, true)), None);
}

#[test]
fn in_process_one_write_per_grant_after_a_registration_loses_none() {
    assert_eq!(in_process(5_000, (Idiom::Once, true)), None);
}

#[test]
fn on_redis_a_write_without_registration_loses_an_update() {
    is_found(on_redis(500, (Idiom::Write, false)));
}

#[test]
fn on_redis_one_write_per_grant_without_registration_loses_an_update() {
    is_found(on_redis(500, (Idiom::Once, false)));
}

#[test]
fn on_redis_a_write_after_a_registration_loses_none() {
    assert_eq!(on_redis(300, (Idiom::Write, true)), None);
}

#[test]
fn on_redis_one_write_per_grant_after_a_registration_loses_none() {
    assert_eq!(on_redis(300, (Idiom::Once, true)), None);
}

#[test]
fn on_postgres_a_guard_without_registration_loses_an_update() {
    is_found(on_postgres(500, (Idiom::Write, false)));
}

#[test]
fn on_postgres_one_guard_per_grant_without_registration_loses_an_update() {
    is_found(on_postgres(500, (Idiom::Once, false)));
}

#[test]
fn on_postgres_a_guard_after_a_registration_loses_none() {
    assert_eq!(on_postgres(300, (Idiom::Write, true)), None);
}

#[test]
fn on_postgres_one_guard_per_grant_after_a_registration_loses_none() {
    assert_eq!(on_postgres(300, (Idiom::Once, true)), None);
}

#[test]
fn behind_a_column_a_write_without_registration_loses_an_update() {
    is_found(behind_a_column(500, false));
}

#[test]
fn behind_a_column_a_write_after_a_registration_loses_none() {
    assert_eq!(behind_a_column(300, true), None);
}

#[test]
fn on_objects_a_write_without_registration_loses_an_update() {
    is_found(lost_on_objects(1_000, (Idiom::Write, false), objects::counted));
    is_found(lost_on_objects(1_000, (Idiom::Write, false), objects::like_s3));
}

#[test]
fn on_objects_one_write_per_grant_without_registration_loses_an_update() {
    is_found(lost_on_objects(1_000, (Idiom::Once, false), objects::counted));
    is_found(lost_on_objects(1_000, (Idiom::Once, false), objects::like_s3));
}

#[test]
fn on_objects_a_write_after_a_registration_loses_none() {
    assert_eq!(lost_on_objects(5_000, (Idiom::Write, true), objects::counted), None);
    assert_eq!(lost_on_objects(2_000, (Idiom::Write, true), objects::like_s3), None);
}

#[test]
fn on_objects_one_write_per_grant_after_a_registration_loses_none() {
    assert_eq!(lost_on_objects(5_000, (Idiom::Once, true), objects::counted), None);
    assert_eq!(lost_on_objects(2_000, (Idiom::Once, true), objects::like_s3), None);
}

/// Why the token of an object stands in its bytes.
#[test]
fn a_token_in_an_objects_metadata_loses_an_update_where_tags_are_made_from_the_content() {
    let counted = |_: &_| InAttributes { store: objects::stepped(InMemory::new()) };
    assert_eq!(lost_on_objects(2_000, (Idiom::Write, true), counted), None);
    let like_s3 = |folder: &_| InAttributes { store: objects::stepped(objects::tagged(folder)) };
    is_found(lost_on_objects(2_000, (Idiom::Write, true), like_s3));
}
