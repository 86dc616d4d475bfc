//! The values that may stand in a key, and the newtypes that join them by one line.

#![allow(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;

use lockrt::{InvalidKey, KeyPart, LockError, LockKey, distributed_lock, testing};
use proptest::prelude::*;
use uuid::Uuid;

#[derive(Clone, PartialEq, Eq, Hash)]
struct TenantId(u32);
struct OrderId(String);
struct Nested(TenantId);
struct Borrowed<'a>(&'a str);
/// Only the first field counts.
struct Tagged(NonZeroU64, #[allow(dead_code, reason = "no part of the key")] &'static str);

lockrt::key_part!(TenantId);
lockrt::key_part!(OrderId, Nested, Borrowed<'_>, Tagged,);

fn text(part: &(impl KeyPart + ?Sized)) -> String {
    LockKey::of("k:").part(part).build().unwrap().as_str()["k:".len()..].into()
}

#[test]
fn every_kind_of_value_has_its_plain_text() {
    assert_eq!(text("a b"), "a%20b");
    assert_eq!(text(&String::from("a")), "a");
    assert_eq!(text(&true), "true");
    assert_eq!(text(&'ü'), "%C3%BC");
    assert_eq!(text(&i128::MIN), i128::MIN.to_string());
    assert_eq!(text(&NonZeroU64::MIN), "1");
    assert_eq!(text(&Uuid::nil()), "00000000-0000-0000-0000-000000000000");
    assert_eq!(text(&Ipv4Addr::LOCALHOST), "127.0.0.1");
    assert_eq!(text(&Ipv6Addr::LOCALHOST), "%3A%3A1");
    assert_eq!(text(&IpAddr::from([10, 0, 0, 1])), "10.0.0.1");
}

#[test]
fn a_pointer_is_what_it_points_to() {
    let id = TenantId(7);
    assert_eq!(text(&&id), "7");
    assert_eq!(text(&Box::new(7)), "7");
    assert_eq!(text(&Rc::new("7")), "7");
    assert_eq!(text(&Arc::<str>::from("7")), "7");
    assert_eq!(text(&Cow::Borrowed("7")), "7");
    let parts: [&dyn KeyPart; 2] = [&id, &7];
    assert!(parts.iter().all(|part| text(*part) == "7"));
}

#[test]
fn a_newtype_has_the_text_of_its_first_field() {
    assert_eq!(text(&TenantId(7)), "7");
    assert_eq!(text(&OrderId("a:b".into())), "a%3Ab");
    assert_eq!(text(&Nested(TenantId(7))), "7");
    assert_eq!(text(&Borrowed("x")), "x");
    assert_eq!(text(&Tagged(NonZeroU64::MAX, "eu")), u64::MAX.to_string());
}

#[test]
fn an_empty_newtype_is_refused_as_its_field_would_be() {
    let empty = LockKey::of("k:").part(&OrderId(String::new())).build();
    assert_eq!(empty, Err(InvalidKey::EmptyPart));
}

#[distributed_lock(key = "orders:{tenant}/{peer}", ttl_ms = 10_000)]
async fn import(tenant: TenantId, peer: IpAddr) -> Result<(), LockError> {
    let _ = (tenant, peer);
    Ok(())
}

#[tokio::test]
async fn newtypes_and_addresses_stand_in_the_attributes_key() {
    let locks = testing::memory();
    let policy = lockrt::LockPolicy::new(std::time::Duration::from_secs(10));
    let peer = IpAddr::from(Ipv6Addr::LOCALHOST);
    let key = LockKey::of("orders:").part(&7).text("/").part(&peer).build().unwrap();
    let _held = locks.acquire(&key, &policy).await.unwrap();
    assert!(import(TenantId(7), peer).await.is_err_and(|refusal| refusal.is_contended()));
    import(TenantId(8), peer).await.unwrap();
}

proptest! {
    #[test]
    fn different_addresses_never_give_one_key(addresses: HashSet<IpAddr>, tenants: HashSet<u32>) {
        let keys: HashSet<_> = addresses.iter().map(text).collect();
        prop_assert_eq!(keys.len(), addresses.len());
        let keys: HashSet<_> = tenants.iter().map(|id| text(&TenantId(*id))).collect();
        prop_assert_eq!(keys.len(), tenants.len());
    }
}
