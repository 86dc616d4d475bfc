//! What users of other attribute macros complain about, one test each.
#![deny(warnings)]
#![allow(clippy::unwrap_used, clippy::unused_async)]

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockrt::{LockError, LockKey, LockManager, LockPolicy, distributed_lock, testing};

mod arguments_named_like_internals {
    use super::*;

    #[distributed_lock(key = "{key}:{guard}:{lease}:{result}:{manager}:{__key}:{__ended}:{__value}", ttl_ms = 5_000, manager = manager_of, on_contention = skip(Ok(__key + __ended + __value)))]
    #[allow(clippy::too_many_arguments)]
    async fn f(
        key: u8,
        guard: u8,
        lease: u8,
        result: u8,
        manager: u8,
        __key: u8,
        __ended: u8,
        __value: u8,
        settled: u8,
        busy: u8,
        error: u8,
        this: u8,
        manager_of: &LockManager,
    ) -> Result<u8, LockError> {
        Ok(key + guard + lease + result + manager + __key + __ended + __value + settled + busy + error + this)
    }

    #[tokio::test]
    async fn arguments_named_like_internals_are_the_users_own() {
        let locks = testing::memory();
        assert_eq!(f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, &locks).await.unwrap(), 78);
        let _held = locks.hold(&LockKey::new("1:2:3:4:5:6:7:8").unwrap());
        assert_eq!(f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, &locks).await.unwrap(), 21);
    }
}

mod handlers_named_like_internals {
    use super::*;
    use actix_web::{HttpResponse, get};

    // Of each handler its route macro makes an item of that name.
    macro_rules! handlers {
        ($($name:ident)*) => { $(
            #[get("/")]
            #[distributed_lock(key = "handlers", ttl_ms = 5_000, lease = held, manager = &testing::memory(), on_contention = skip(HttpResponse::Ok().finish()))]
            async fn $name() -> HttpResponse {
                HttpResponse::Ok().body(held.key().as_str().to_owned())
            }
        )* };
    }

    handlers!(key guard lease manager site settled value refused busy never ended failed ignored_0 error);

    #[distributed_lock(key = "handlers", ttl_ms = 5_000, lease = held, on_error = |refusal| refusal.is_lost())]
    async fn beside_them(_: u8) -> bool {
        held.check().is_ok()
    }

    #[tokio::test]
    async fn handlers_may_be_called_like_the_internals() {
        let _locks = testing::memory();
        assert!(beside_them(1).await);
        let _ = (
            key, guard, lease, manager, site, settled, value, refused, busy, never, ended, failed, ignored_0,
            error,
        );
    }
}

struct Shop {
    name: String,
}

impl Shop {
    #[distributed_lock(key = "shop:{self.name}", ttl_ms = 5_000)]
    async fn rename(&mut self, name: &str) -> Result<&str, LockError> {
        name.clone_into(&mut self.name);
        Ok(&self.name)
    }

    #[distributed_lock(key = "shop:{self.name}", ttl_ms = 5_000)]
    async fn shared(self: Arc<Self>, more: &str) -> Result<usize, LockError> {
        Ok(self.name.len() + more.len())
    }

    #[distributed_lock(key = "shop:{self.name}", ttl_ms = 5_000)]
    async fn boxed(mut self: Box<Self>) -> Result<String, LockError> {
        self.name.push('!');
        Ok(self.name)
    }
}

#[tokio::test]
async fn methods_with_every_kind_of_self_are_locked() {
    let _locks = testing::memory();
    let mut shop = Shop { name: "a".into() };
    assert_eq!(shop.rename("bc").await.unwrap(), "bc");
    let shop = Arc::new(shop);
    assert_eq!(Arc::clone(&shop).shared("d").await.unwrap(), 3);
    assert_eq!(Box::new(Shop { name: "e".into() }).boxed().await.unwrap(), "e!");
}

#[distributed_lock(key = "{N}:{values.len()}:{id:display}", ttl_ms = 5_000)]
async fn generic<T, F, const N: usize>(
    values: [T; N],
    id: impl Display,
    convert: F,
) -> Result<[T; N], LockError>
where
    F: for<'a> Fn(&'a T) -> &'a T,
    T: Clone,
{
    assert!(!id.to_string().is_empty());
    Ok(values.map(|value| convert(&value).clone()))
}

#[tokio::test]
async fn generics_and_const_generics_are_locked() {
    let _locks = testing::memory();
    assert_eq!(generic([1, 2], 'x', |value| value).await.unwrap(), [1, 2]);
}

#[distributed_lock(key = "{name}", ttl_ms = 5_000)]
async fn lifetimes<'a, 'b: 'a>(
    name: &'a str,
    other: &'b [&'a str],
    [first, .., last]: [&'b str; 3],
) -> Result<&'a str, LockError> {
    assert!(first < last);
    Ok(other.first().copied().unwrap_or(name))
}

#[tokio::test]
async fn lifetimes_reach_from_the_arguments_to_the_result() {
    let _locks = testing::memory();
    let name = String::from("n");
    assert_eq!(lifetimes(&name, &["o"], ["a", "b", "c"]).await.unwrap(), "o");
}

mod result_alias {
    use super::*;

    pub(super) type Result<T = (), E = LockError> = std::result::Result<T, E>;

    #[distributed_lock(key = "alias", ttl_ms = 5_000, lease = held)]
    async fn bare() -> Result {
        held.check()
    }

    #[tokio::test]
    async fn a_result_alias_may_hide_its_parameters() {
        let _locks = testing::memory();
        bare().await.unwrap();
    }
}

mod facades {
    use super::*;

    mod facade {
        pub(super) mod locks {
            pub(in super::super) use lockrt::*;
        }
    }

    // A crate renamed in Cargo.toml is among the cases, which are crates of their own.
    #[facade::locks::distributed_lock(key = "facade", ttl_ms = 5_000, crate = facade::locks)]
    async fn through_a_facade() -> Result<(), facade::locks::LockError> {
        Ok(())
    }

    macro_rules! through_a_facade_and_a_macro {
        ($name:ident) => {
            #[facade::locks::distributed_lock(key = "facade", ttl_ms = 5_000, crate = facade::locks)]
            async fn $name() -> Result<(), facade::locks::LockError> {
                Ok(())
            }
        };
    }
    through_a_facade_and_a_macro!(also);

    #[tokio::test]
    async fn a_facade_hands_the_attribute_on() {
        let _locks = testing::memory();
        through_a_facade().await.unwrap();
        also().await.unwrap();
    }
}

#[distributed_lock(key = "cfg:{id}", ttl_ms = 5_000)]
#[cfg(not(any()))]
#[must_use = "forwarded"]
async fn conditional(
    id: u8,
    #[cfg(any())] missing: Missing,
    #[cfg(not(any()))] present: String,
    #[cfg_attr(not(any()), allow(unused_mut))] mut same: u8,
) -> Result<usize, LockError> {
    Ok(usize::from(id + same) + present.len())
}

#[cfg(any())]
#[distributed_lock(key = "cfg", ttl_ms = 5_000)]
async fn conditional() {}

#[tokio::test]
async fn cfg_is_forwarded_on_functions_and_arguments() {
    let _locks = testing::memory();
    assert_eq!(conditional(1, "ab".into(), 3).await.unwrap(), 6);
}

mod shadowed_prelude {
    #![allow(dead_code)]
    use super::LockError;

    pub(crate) struct Result;
    pub(crate) struct Option;
    pub(crate) struct String;
    pub(crate) struct Ok;
    pub(crate) struct Err;
    mod core {}

    #[lockrt::distributed_lock(key = "s:{id:hash}:{id:display}", ttl_ms = 5_000, min_hold_ms = 1, release = started, on_cancel = hold, fencing = required, on_contention = skip(|busy| busy.waited().is_zero()), on_error = |error| !error.is_lost())]
    pub(crate) async fn every_argument(id: u8) -> bool {
        id == 0
    }

    #[lockrt::distributed_lock(key = "s", ttl_ms = 5_000, on_contention = wait(timeout_ms = 1))]
    pub(crate) async fn a_result() -> ::std::result::Result<u8, LockError> {
        ::std::result::Result::Ok(1)
    }
}

#[tokio::test]
async fn items_named_result_option_ok_and_string_do_not_matter() {
    let _locks = testing::memory();
    assert!(shadowed_prelude::every_argument(0).await);
    assert_eq!(shadowed_prelude::a_result().await.unwrap(), 1);
}

#[distributed_lock(key = "big", ttl_ms = 5_000)]
async fn big() -> Result<u8, LockError> {
    let local = [1_u8; 8_192];
    tokio::task::yield_now().await;
    Ok(local[17])
}

#[tokio::test]
async fn the_body_stands_in_the_expansion_once() {
    let _locks = testing::memory();
    let call = Box::pin(big());
    assert!(size_of_val(&*call) < 2 * 8_192, "{}", size_of_val(&*call));
    assert_eq!(call.await.unwrap(), 1);
}

/// Looks, when it is dropped, whether the lock is still held.
struct Looks(Arc<AtomicUsize>);

impl Drop for Looks {
    fn drop(&mut self) {
        assert!(
            lockrt::current_lease().is_some_and(|lease| lease.check().is_ok()),
            "dropped after the release"
        );
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[distributed_lock(key = "ignored", ttl_ms = 5_000)]
async fn ignores(_: Looks, _unused: Looks) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn an_ignored_argument_is_dropped_before_the_release() {
    let _locks = testing::memory();
    let dropped = Arc::new(AtomicUsize::new(0));
    let looks = || Looks(Arc::clone(&dropped));
    ignores(looks(), looks()).await.unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

#[distributed_lock(key = "coerced", ttl_ms = 5_000)]
async fn coerces(early: bool) -> Result<Box<dyn Display + Send>, LockError> {
    if early {
        return Ok(Box::new(1));
    }
    Ok(Box::new("late"))
}

#[tokio::test]
async fn a_boxed_trait_object_may_come_from_two_return_paths() {
    let _locks = testing::memory();
    assert_eq!(coerces(true).await.unwrap().to_string(), "1");
    assert_eq!(coerces(false).await.unwrap().to_string(), "late");
}

mod hidden_types {
    use super::*;
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};

    #[distributed_lock(key = "page:{id}", ttl_ms = 5_000)]
    async fn page(id: u8) -> impl IntoResponse {
        if id == 0 {
            return (StatusCode::NOT_FOUND, String::new());
        }
        (StatusCode::CREATED, id.to_string())
    }

    #[distributed_lock(key = "page:{id}", ttl_ms = 5_000, on_contention = skip((StatusCode::ACCEPTED, "same")))]
    async fn skips(id: u8) -> impl IntoResponse + use<> {
        let _ = page(id + 1).await;
        (StatusCode::OK, "done")
    }

    #[distributed_lock(key = "list:{id}", ttl_ms = 5_000)]
    async fn inside(id: u8) -> Result<impl Iterator<Item = u8>, LockError> {
        Ok(0..id)
    }

    async fn status(answer: impl Future<Output = impl IntoResponse>) -> StatusCode {
        Response::status(&answer.await.into_response())
    }

    #[tokio::test]
    async fn impl_trait_as_return_type_has_room_for_a_refusal() {
        assert_eq!(status(page(1)).await, StatusCode::INTERNAL_SERVER_ERROR);
        let locks = testing::memory();
        assert_eq!(status(page(0)).await, StatusCode::NOT_FOUND);
        assert_eq!(status(page(1)).await, StatusCode::CREATED);
        let key = LockKey::new("page:1").unwrap();
        let guard = locks.acquire(&key, &LockPolicy::new(std::time::Duration::from_secs(5))).await.unwrap();
        assert_eq!(status(page(1)).await, StatusCode::CONFLICT);
        assert_eq!(status(skips(1)).await, StatusCode::ACCEPTED);
        guard.release().await;
        assert_eq!(status(skips(1)).await, StatusCode::OK);
        assert_eq!(inside(3).await.unwrap().count(), 3);
    }
}

#[test]
fn type_errors_in_the_body_point_into_the_body() {
    let source = include_str!("../mistakes/tests/ui/body_type_error.rs");
    let answer = include_str!("../mistakes/tests/ui/body_type_error.stderr");
    for error in answer.split("error[").skip(1) {
        let place = error.lines().nth(1).unwrap();
        let mut numbers = place.rsplit(':').map(|number| number.parse::<usize>().unwrap_or(0));
        let (column, line) = (numbers.next().unwrap(), numbers.next().unwrap());
        let shown = source.lines().nth(line - 1).unwrap();
        assert!(!shown.contains("#[distributed_lock"), "{place}: {shown}");
        assert!(column > 0 && !error.contains("attribute macro"), "{error}");
    }
}

mod lint_noise {
    #![deny(warnings, clippy::all, clippy::pedantic, clippy::nursery)]
    use super::*;

    #[distributed_lock(key = "noise:{_named}", ttl_ms = 5_000)]
    async fn unused_arguments(_: String, _named: u8, unnamed: u8) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "noise:{}", ttl_ms = 5_000)]
    #[cfg(any())]
    async fn left_out() {}

    #[rustfmt::skip] // all on one line
    #[distributed_lock(key = "noise", ttl_ms = 5_000)]
    async fn elided(text: &str, more: &[&str]) -> Result<usize, LockError> { Ok(text.len() + more.len()) }

    #[tokio::test]
    async fn no_lint_about_unused_arguments_or_lifetimes_appears() {
        let _locks = testing::memory();
        unused_arguments(String::new(), 1, 2).await.unwrap();
        assert_eq!(elided("a", &["b"]).await.unwrap(), 2);
    }
}

#[distributed_lock(key = "tree:{depth}", ttl_ms = 5_000, manager = &manager)]
async fn recursive(manager: LockManager, depth: u8) -> Result<u8, LockError> {
    if depth == 0 {
        return Ok(0);
    }
    Ok(Box::pin(recursive(manager, depth - 1)).await? + 1)
}

#[distributed_lock(key = "same", ttl_ms = 5_000, on_contention = wait(forever))]
async fn asks_for_itself(again: bool) -> Result<(), LockError> {
    if again { Box::pin(asks_for_itself(false)).await } else { Ok(()) }
}

#[tokio::test]
async fn recursion_keeps_send_and_the_same_key_again_is_refused_at_once() {
    let locks = testing::memory();
    let manager = LockManager::clone(&locks);
    assert_eq!(tokio::spawn(recursive(manager, 3)).await.unwrap().unwrap(), 3);
    assert!(matches!(asks_for_itself(true).await, Err(LockError::Reentrant { .. })));
}
