//! Functions of many shapes carry the attribute, compile, and behave as without it.
#![deny(warnings)]
#![allow(clippy::unwrap_used, clippy::unused_async)]

use std::cell::RefCell;
use std::fmt::Display;
use std::pin::Pin;

use lockrt::{LockError, LockManager, distributed_lock};

#[derive(Debug)]
pub(crate) enum Fault {
    Lock(LockError),
    Other(&'static str),
}

impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl Fault {
    fn is_contended(&self) -> bool {
        matches!(self, Self::Lock(error) if error.is_contended())
    }
}

type Answer<T> = Result<T, Fault>;

struct Path<T>(T);
struct State<T>(T);
struct App {
    name: String,
    locks: LockManager,
}

// Attributes of an axum handler, taken apart in its arguments.
#[distributed_lock(key = "order:{tenant}:{id}:{name}", ttl_ms = 5_000, lease = held)]
async fn destructured(
    Path((tenant, id)): Path<(String, u64)>,
    State(App { ref name, .. }): State<App>,
) -> Answer<String> {
    if id == 0 {
        return Err(Fault::Other("zero"));
    }
    let parsed: u64 = tenant.parse().map_err(|_| Fault::Other("no number"))?;
    Ok(format!("{} {name} {parsed}", held.key().as_str()))
}

#[tokio::test]
async fn destructured_arguments_make_the_key() {
    let locks = lockrt::testing::memory();
    let app = || State(App { name: "n{x".into(), locks: locks.clone() });
    assert_eq!(destructured(Path(("7".into(), 3)), app()).await.unwrap(), "order:7:3:n%7Bx n{x 7");
    assert!(matches!(destructured(Path(("7".into(), 0)), app()).await, Err(Fault::Other("zero"))));
    assert!(matches!(destructured(Path(("a".into(), 1)), app()).await, Err(Fault::Other("no number"))));
}

impl App {
    const TTL: u64 = 4_000;

    #[distributed_lock(key = "app:{self.name}:{self.name.len()}", ttl_ms = Self::TTL, manager = &self.locks)]
    async fn by_reference(&self, other: &str) -> Answer<usize> {
        Ok(self.name.len() + other.len())
    }

    #[distributed_lock(key = "app:{self.name}", ttl_ms = 5_000, manager = &self.locks)]
    async fn by_mutable_reference<'a>(&'a mut self, _: &str) -> Answer<&'a mut String> {
        self.name.push('!');
        Ok(&mut self.name)
    }

    #[distributed_lock(key = "app:{self.name}", ttl_ms = 5_000, manager = &self.locks)]
    async fn by_value(mut self) -> Answer<String> {
        self.name.push('?');
        Ok(self.name)
    }

    #[distributed_lock(key = "app:{self.name}", ttl_ms = 5_000, manager = &self.locks)]
    async fn pinned(self: Pin<&mut Self>) -> Answer<usize> {
        Ok(self.name.len())
    }
}

#[tokio::test]
async fn methods_lock_with_the_manager_of_their_object() {
    let locks = lockrt::testing::memory();
    let mut app = App { name: "ab".into(), locks: locks.clone() };
    assert_eq!(app.by_reference("c").await.unwrap(), 3);
    assert_eq!(app.by_mutable_reference("").await.unwrap(), "ab!");
    assert_eq!(Pin::new(&mut app).pinned().await.unwrap(), 3);
    assert_eq!(app.by_value().await.unwrap(), "ab!?");
}

trait Store {
    const TTL: u64;
    async fn put<T: Display + Clone>(&self, id: T) -> Answer<T>;

    #[distributed_lock(key = "default:{id}", ttl_ms = Self::TTL)]
    async fn default_body(&self, id: u8) -> Answer<u8> {
        Ok(id + 1)
    }
}

impl Store for u8 {
    const TTL: u64 = 9_000;

    #[distributed_lock(key = "{Self::TTL}:{id:display}", ttl_ms = <Self as Store>::TTL, lease = held)]
    async fn put<T: Display + Clone>(&self, id: T) -> Answer<T> {
        assert_eq!(held.key().as_str(), format!("9000:{id}"));
        Ok(id)
    }
}

#[distributed_lock(key = "{N}:{ids.len()}:{(*first)}:{ids[0]}", ttl_ms = 5_000)]
async fn generic<'a, T, const N: u8>(
    ids: &'a [u8],
    first: &u8,
    make: impl Fn(&'a [u8]) -> T,
) -> Result<T, Fault>
where
    T: 'a,
{
    assert!(ids.contains(first));
    Ok(make(ids))
}

#[tokio::test]
async fn traits_and_generics_are_served() {
    let _locks = lockrt::testing::memory();
    assert_eq!(5_u8.put("x").await.unwrap(), "x");
    assert_eq!(5_u8.default_body(1).await.unwrap(), 2);
    assert_eq!(generic::<_, 3>(&[1, 2], &2, |ids| ids.first()).await.unwrap(), Some(&1));
}

// Every name the expansion uses, as an argument.
#[distributed_lock(key = "{key}:{lease}:{manager}:{held}:{ended}:{guard}:{site}", ttl_ms = 5_000, lease = mine)]
#[allow(clippy::too_many_arguments)]
async fn names(
    key: u8,
    lease: u8,
    manager: u8,
    held: u8,
    ended: u8,
    guard: u8,
    site: u8,
    failed: u8,
    value: u8,
    lost: u8,
    refused: u8,
    never: u8,
    held_lease: u8,
    r#type: u8,
) -> Answer<u8> {
    assert_eq!(mine.key().as_str(), "1:2:3:4:5:6:7");
    Ok(key
        + lease
        + manager
        + held
        + ended
        + guard
        + site
        + failed
        + value
        + lost
        + refused
        + never
        + held_lease
        + r#type)
}

#[tokio::test]
async fn arguments_may_be_called_like_our_own_names() {
    let _locks = lockrt::testing::memory();
    assert_eq!(names(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14).await.unwrap(), 105);
}

// An argument notes when it is dropped.
struct Noted<'a>(&'static str, &'a RefCell<Vec<&'static str>>);
impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[allow(unused_variables)]
async fn plain(
    a: Noted<'_>,
    (b, c): (Noted<'_>, Noted<'_>),
    _: Noted<'_>,
    _e: Noted<'_>,
    mut f: Noted<'_>,
) -> Answer<()> {
    let local = Noted("local", f.1);
    drop(b);
    f.0 = "f moved";
    assert_eq!(f.0, "f moved");
    Ok(())
}

#[distributed_lock(key = "drops", ttl_ms = 5_000)]
async fn locked(
    a: Noted<'_>,
    (b, c): (Noted<'_>, Noted<'_>),
    _: Noted<'_>,
    _e: Noted<'_>,
    mut f: Noted<'_>,
) -> Answer<()> {
    let _local = Noted("local", f.1);
    drop(b);
    f.0 = "f moved";
    assert_eq!(f.0, "f moved");
    Ok(())
}

#[tokio::test]
async fn arguments_drop_in_the_order_of_the_plain_function_and_before_the_release() {
    let _locks = lockrt::testing::memory();
    let seen = [RefCell::default(), RefCell::default()];
    let note = |name, at: usize| Noted(name, &seen[at]);
    plain(note("a", 0), (note("b", 0), note("c", 0)), note("_", 0), note("_e", 0), note("f", 0))
        .await
        .unwrap();
    locked(note("a", 1), (note("b", 1), note("c", 1)), note("_", 1), note("_e", 1), note("f", 1))
        .await
        .unwrap();
    assert_eq!(seen[0].borrow().len(), 7);
    assert_eq!(*seen[0].borrow(), *seen[1].borrow());
}

struct AsksOnDrop<'a>(&'a RefCell<Option<bool>>);
impl Drop for AsksOnDrop<'_> {
    fn drop(&mut self) {
        let refused = futures_now(nested());
        *self.0.borrow_mut() = Some(refused.is_err());
    }
}

/// The value of a future that is ready at its first poll.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("not ready at once"),
    }
}

#[distributed_lock(key = "asked", ttl_ms = 5_000)]
async fn nested() -> Answer<()> {
    Ok(())
}

#[distributed_lock(key = "asked", ttl_ms = 5_000)]
async fn asked(argument: AsksOnDrop<'_>) -> Answer<()> {
    Ok(())
}

mod shadowed {
    //! Nothing of the prelude means what it usually means.
    #![allow(dead_code, non_camel_case_types, unused_macros)]
    use super::Fault;

    pub(crate) struct Result;
    pub(crate) struct Option;
    pub(crate) struct String;
    pub(crate) struct Box;
    pub(crate) struct u64;
    pub(crate) struct bool;
    pub(crate) struct Ok;
    pub(crate) struct Err;
    pub(crate) struct Some;
    pub(crate) struct None;
    mod core {}
    mod std {}
    fn drop() {}
    macro_rules! format_args {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }
    macro_rules! concat {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }
    macro_rules! module_path {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }

    #[lockrt::distributed_lock(key = "s:{id}", ttl_ms = 5_000, on_contention = skip, lease = held)]
    pub(crate) async fn skips(id: u8) -> ::std::option::Option<u8> {
        held.check().ok()?;
        ::std::option::Option::Some(id)
    }

    #[lockrt::distributed_lock(key = "s:{id}", ttl_ms = 5_000, renew = auto(max_ms = 6_000))]
    pub(crate) async fn fails(id: u8) -> ::std::result::Result<u8, Fault> {
        ::std::result::Result::Ok(id)
    }
}

#[tokio::test]
async fn a_shadowed_prelude_does_not_matter() {
    let _locks = lockrt::testing::memory();
    assert_eq!(shadowed::skips(3).await, Some(3));
    assert_eq!(shadowed::fails(3).await.unwrap(), 3);
}

macro_rules! repository {
    ($ttl:expr; $($method:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block)*) => {
        $(
            #[distributed_lock(key = concat!("repo:", stringify!($method), ":{id}:{id.wrapping_add(1)}"), ttl_ms = $ttl, lease = held)]
            async fn $method($($arg: $ty),*) -> Answer<(String, $ret)> {
                Ok((held.key().as_str().to_owned(), $body))
            }
        )*
    };
}

repository! { 1_000;
    rename(id: u64, name: &str) -> usize { name.len() }
    enable(id: u8, on: bool) -> bool { !on }
}

#[tokio::test]
async fn functions_made_by_a_macro_have_keys_of_their_own() {
    let _locks = lockrt::testing::memory();
    assert_eq!(rename(1, "ab").await.unwrap(), ("repo:rename:1:2".into(), 2));
    assert_eq!(enable(1, true).await.unwrap(), ("repo:enable:1:2".into(), false));
}

#[distributed_lock(key = "{format!(\"{name}-{id}\")}:{[id].map(|id| id + 1)[0]}:{type}:{name.find('}').is_some()}", ttl_ms = 5_000, lease = held)]
async fn expressions(name: &str, id: u8, r#type: char) -> Answer<String> {
    Ok(held.key().as_str().to_owned())
}

macro_rules! given {
    ($name:ident, $argument:ident) => {
        #[distributed_lock(key = "{format!(\"<{id}>\")}:{[id].map(|id| id + 1)[0]}:{id}", ttl_ms = 5_000, lease = held)]
        async fn $name($argument: u8, id: u8) -> Answer<String> {
            let _ = $argument;
            Ok(held.key().as_str().to_owned())
        }
    };
}
given!(given, other_id);

#[tokio::test]
async fn expressions_see_the_arguments_also_inside_strings_closures_and_macros() {
    let _locks = lockrt::testing::memory();
    assert_eq!(expressions("a}", 1, 'x').await.unwrap(), "a%7D-1:2:x:true");
    assert_eq!(given(7, 1).await.unwrap(), "%3C1%3E:2:1");
}

mod limits {
    pub(crate) const TTL: u64 = 2_000;
    pub(crate) const CAP: u64 = 60_000;
}

/// Long enough for the other branch to ask for the lock.
async fn pause() {
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
}

#[distributed_lock(key = "counted", ttl_ms = limits::TTL, renew = auto(max_ms = limits::CAP), on_contention = wait(timeout_ms = 1_000))]
async fn counted(running: &RefCell<u8>) -> Answer<u8> {
    *running.borrow_mut() += 1;
    pause().await;
    let now = *running.borrow();
    *running.borrow_mut() -= 1;
    Ok(now)
}

#[tokio::test]
async fn bodies_run_one_at_a_time() {
    let _locks = lockrt::testing::memory();
    let running = RefCell::new(0);
    let (a, b, c) = tokio::join!(counted(&running), counted(&running), counted(&running));
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()], [1, 1, 1]);
}

async fn two<T>(first: impl Future<Output = T>, second: impl Future<Output = T>) -> (T, T) {
    tokio::join!(first, second)
}

#[distributed_lock(key = "busy:{id}", ttl_ms = 5_000)]
async fn fails(id: u8) -> Answer<u8> {
    pause().await;
    Ok(id)
}

#[distributed_lock(key = "busy:{id}", ttl_ms = 5_000, on_contention = skip)]
async fn skips(id: u8, done: &RefCell<u8>) {
    pause().await;
    *done.borrow_mut() += id;
}

#[distributed_lock(key = "busy:{text}", ttl_ms = 5_000, on_contention = skip(Ok(later(text).await?)))]
async fn skips_with(text: String) -> Answer<String> {
    pause().await;
    Ok(text)
}

async fn later(text: String) -> Answer<String> {
    Ok(text + " later")
}

#[tokio::test]
async fn contention_is_answered_as_asked() {
    let _locks = lockrt::testing::memory();
    let (first, second) = two(fails(1), fails(1)).await;
    assert_eq!(first.unwrap(), 1);
    assert!(second.unwrap_err().is_contended());
    let (first, second) = two(fails(1), fails(2)).await;
    assert_eq!((first.unwrap(), second.unwrap()), (1, 2));

    let done = RefCell::new(0);
    two(skips(1, &done), skips(1, &done)).await;
    assert_eq!(*done.borrow(), 1);

    let (first, second) = two(skips_with("a".into()), skips_with("a".into())).await;
    assert_eq!((first.unwrap(), second.unwrap()), ("a".into(), "a later".into()));
}

#[distributed_lock(key = "lost:{fail}", ttl_ms = 20)]
async fn slow(fail: bool) -> Answer<u8> {
    std::thread::sleep(std::time::Duration::from_millis(30));
    if fail { Err(Fault::Other("own")) } else { Ok(1) }
}

#[distributed_lock(key = "lost", ttl_ms = 20, on_lost = report)]
async fn slow_reported() -> Answer<u8> {
    std::thread::sleep(std::time::Duration::from_millis(30));
    Ok(1)
}

#[tokio::test]
async fn a_late_value_is_lost_unless_reported_and_an_own_error_stays() {
    let _locks = lockrt::testing::memory();
    assert!(matches!(slow(false).await, Err(Fault::Lock(error)) if !error.is_contended()));
    assert!(matches!(slow(true).await, Err(Fault::Other("own"))));
    assert_eq!(slow_reported().await.unwrap(), 1);
}

#[distributed_lock(key = "nested-impl:{_id}", ttl_ms = 5_000)]
#[allow(clippy::items_after_statements)]
async fn inner_items_and_attributes(_id: u8) -> Result<impl Display + use<>, Fault> {
    #![allow(non_snake_case)]
    let Name = 'found: {
        for number in 0..3 {
            if number == 1 {
                break 'found number;
            }
        }
        0
    };
    #[derive(Debug)]
    struct Fault;
    let _ = format!("{Fault:?}");
    Ok(Name)
}

// Both values become trait objects only where the return type is known inside the body.
#[distributed_lock(key = "coerced", ttl_ms = 5_000, on_contention = skip(Ok(Box::new('c'))))]
async fn coerced(early: bool) -> Answer<Box<dyn Display + Send>> {
    if early {
        return Ok(Box::new(1));
    }
    Ok(Box::new("tail"))
}

#[tokio::test]
async fn values_coerce_to_the_return_type() {
    let _locks = lockrt::testing::memory();
    assert_eq!(coerced(true).await.unwrap().to_string(), "1");
    assert_eq!(coerced(false).await.unwrap().to_string(), "tail");
}

fn send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn a_locked_future_is_send_where_the_plain_one_is() {
    let locks = lockrt::testing::memory();
    assert_eq!(send(inner_items_and_attributes(1)).await.unwrap().to_string(), "1");
    let app = App { name: "a".into(), locks: locks.clone() };
    assert_eq!(send(app.by_reference("b")).await.unwrap(), 2);
}

#[tokio::test]
async fn an_argument_is_dropped_while_the_lock_is_held() {
    let _locks = lockrt::testing::memory();
    let refused = RefCell::new(None);
    asked(AsksOnDrop(&refused)).await.unwrap();
    assert_eq!(*refused.borrow(), Some(true));
    nested().await.unwrap();
}

mod facade {
    pub(crate) use lockrt::*;
}

#[distributed_lock(key = "named", ttl_ms = 5_000, lease = held)]
async fn unnamed() -> Answer<&'static str> {
    Ok(held.name())
}

#[distributed_lock(key = "named", ttl_ms = 5_000, lease = held, name = concat!("orders.", stringify!(named)), crate = crate::facade)]
async fn named() -> Answer<&'static str> {
    Ok(held.name())
}

#[tokio::test]
async fn a_lock_is_called_after_its_function_or_as_asked() {
    let _locks = lockrt::testing::memory();
    assert_eq!(unnamed().await.unwrap(), "macro_shapes::unnamed");
    assert_eq!(named().await.unwrap(), "orders.named");
}

#[distributed_lock(key = "waits", ttl_ms = 5_000, on_contention = wait(timeout_ms = 1))]
async fn waits_briefly() -> Answer<()> {
    pause().await;
    Ok(())
}

#[distributed_lock(key = "waits", ttl_ms = 5_000, on_contention = wait(forever))]
async fn waits() -> Answer<()> {
    pause().await;
    Ok(())
}

#[tokio::test]
async fn a_wait_ends_at_its_timeout_or_with_the_lock() {
    let _locks = lockrt::testing::memory();
    let (first, second) = two(waits_briefly(), waits_briefly()).await;
    first.unwrap();
    assert!(second.unwrap_err().is_contended());
    let (first, second) = two(waits(), waits()).await;
    first.and(second).unwrap();
}

#[distributed_lock(key = "k", ttl_ms = 5_000, on_contention = skip)]
async fn optional() -> Option<u8> {
    Some(1)
}

#[distributed_lock(key = "k", ttl_ms = 5_000, on_contention = skip(Ok(2)))]
async fn replaced() -> Answer<u8> {
    Ok(1)
}

#[distributed_lock(key = "{id}", ttl_ms = 5_000)]
async fn of_id(id: &str) -> Answer<()> {
    Ok(())
}

#[tokio::test]
async fn other_refusals_are_no_contention() {
    assert_eq!(optional().await, None);
    assert!(matches!(replaced().await, Err(Fault::Lock(LockError::NotInstalled))));
    assert!(matches!(of_id("a").await, Err(Fault::Lock(LockError::NotInstalled))));
    let _locks = lockrt::testing::memory();
    assert_eq!(optional().await, Some(1));
    assert!(matches!(of_id("").await, Err(Fault::Lock(LockError::InvalidKey { .. }))));
}

// Bodies on one line, as other formatters and macros write them: their braces are not superfluous.
#[rustfmt::skip]
mod on_one_line {
    use super::{Answer, distributed_lock};

    #[distributed_lock(key = "line:{id}", ttl_ms = 5_000)]
    pub(super) async fn value(id: u8) -> Answer<u8> { Ok(id) }

    #[distributed_lock(key = "line:{id}", ttl_ms = 5_000)]
    pub(super) async fn choice(id: u8) -> Answer<u8> { if id == 0 { Ok(1) } else { value(id - 1).await } }

    #[distributed_lock(key = "line", ttl_ms = 5_000)]
    pub(super) async fn matched(answer: Answer<u8>) -> Answer<u8> { match answer { Ok(id) => Ok(id + 1), other => other } }

    #[distributed_lock(key = "unit", ttl_ms = 5_000, on_contention = skip)]
    pub(super) async fn unit(seen: &mut Vec<u8>) { seen.push(1) }
}

#[tokio::test]
async fn a_body_may_stand_on_one_line() {
    let _locks = lockrt::testing::memory();
    let mut seen = Vec::new();
    on_one_line::unit(&mut seen).await;
    assert_eq!(seen, [1]);
    assert_eq!(on_one_line::choice(1).await.unwrap(), 0);
    assert_eq!(on_one_line::matched(Ok(1)).await.unwrap(), 2);
}
