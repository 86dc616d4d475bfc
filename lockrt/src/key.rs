//! What is locked: [`LockKey`], and the values that may become part of one, [`KeyPart`].

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

/// Longest text of a key in bytes; longer input is refused rather than hashed without bound.
pub const MAX_KEY_BYTES: usize = 16 * 1024;

/// Longest key that is stored as it is written; a longer one is stored by its digest.
pub const MAX_STORED_BYTES: usize = 255;

/// What a value may hold unescaped. None of the separators `: / | # ,` is among them, so a value
/// cannot leave its place in a key.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@')
    .remove(b'+')
    .remove(b'=')
    .remove(b'-');

/// The validated name of what is locked.
///
/// A key is made from fixed text and from values. Each value is percent-encoded outside
/// `[A-Za-z0-9._~@+=-]`, so different values never give the same key and no value can forge
/// another key. `Debug` and `Display` show a digest, since keys may hold personal data; only
/// [`as_str`](Self::as_str) gives the text.
///
/// ```
/// use lockrt::LockKey;
///
/// let key = LockKey::of("quote:").part("acme:eu").text(":").part(&42).build()?;
/// assert_eq!(key.as_str(), "quote:acme%3Aeu:42");
/// assert!(key.to_string().starts_with("sha256:"));
/// # Ok::<(), lockrt::InvalidKey>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// A key of fixed text; `%`, `{`, `}` and control characters in it are percent-encoded.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the text is empty, holds NUL, or is longer than [`MAX_KEY_BYTES`].
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidKey> {
        Self::of(text).build()
    }

    /// Starts a key with fixed text, to which values are added.
    pub fn of(text: impl AsRef<str>) -> KeyBuilder {
        KeyBuilder { text: Ok(String::new()) }.text(text)
    }

    /// The text of the key. It may hold personal data: keep it out of logs and metrics.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `sha256:` and the first 12 hex digits of the key's SHA-256, fit for logs.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut short = hex(&Sha256::digest(self.0.as_bytes())[..6]);
        short.insert_str(0, "sha256:");
        short
    }

    /// The name under which a lock service stores this key: `prefix` and the text, or for a text
    /// over [`MAX_STORED_BYTES`] `prefix`, `%h` and its SHA-256. `%h` is no percent-encoding, so
    /// no short key can equal a long one.
    #[must_use]
    pub(crate) fn stored(&self, prefix: &str) -> Self {
        if self.0.len() > MAX_STORED_BYTES {
            let digest = hex(&Sha256::digest(self.0.as_bytes()));
            return Self(format!("{prefix}%h{digest}").into());
        }
        if prefix.is_empty() {
            return self.clone();
        }
        Self(joined(prefix, &self.0))
    }

    /// Accepts text whose values are encoded already, as the attribute writes it.
    pub(crate) fn encoded(text: String) -> Result<Self, InvalidKey> {
        KeyBuilder { text: Ok(text) }.build()
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockKey({})", self.digest())
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digest())
    }
}

/// The whole SHA-256 of a value that should not be readable, or is too long.
pub(crate) fn digest_of(value: &str) -> String {
    hex(&Sha256::digest(value.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A [`LockKey`] in the making; see [`LockKey::of`].
#[derive(Clone, Debug)]
#[must_use = "a key is made by `build()`"]
pub struct KeyBuilder {
    text: Result<String, InvalidKey>,
}

impl KeyBuilder {
    /// Adds fixed text; `%`, `{`, `}` and control characters in it are percent-encoded.
    pub fn text(mut self, text: impl AsRef<str>) -> Self {
        if let Ok(key) = &mut self.text {
            let text = text.as_ref();
            if text.contains('\0') {
                self.text = Err(InvalidKey::Nul);
            } else if key.len() + text.len() > MAX_KEY_BYTES {
                self.text = Err(InvalidKey::TooLong);
            } else {
                text.chars().for_each(|c| push_fixed(key, c));
            }
        }
        self
    }

    /// Adds a value, percent-encoded outside `[A-Za-z0-9._~@+=-]`.
    ///
    /// Put one of the separators `: / | # ,` between two values, else `("a", "bc")` and
    /// `("ab", "c")` make one key.
    pub fn part<P: KeyPart + ?Sized>(mut self, value: &P) -> Self {
        if let Ok(key) = &mut self.text {
            let value = value.key_part();
            if value.is_empty() {
                self.text = Err(InvalidKey::EmptyPart);
            } else if key.len() + value.len() > MAX_KEY_BYTES {
                self.text = Err(InvalidKey::TooLong);
            } else {
                key.extend(encode(&value));
            }
        }
        self
    }

    /// The finished key.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`], saying what was wrong with the first bad piece.
    pub fn build(self) -> Result<LockKey, InvalidKey> {
        let text = self.text?;
        if text.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(InvalidKey::TooLong);
        }
        Ok(LockKey(text.into()))
    }
}

/// One text of two. It stands on the stack first, where there is room: it is made for every lock.
fn joined(prefix: &str, text: &str) -> Arc<str> {
    let mut room = [0; MAX_STORED_BYTES + 64];
    let (before, whole) = (prefix.len(), prefix.len() + text.len());
    let Some(bytes) = room.get_mut(..whole) else { return [prefix, text].concat().into() };
    bytes[..before].copy_from_slice(prefix.as_bytes());
    bytes[before..].copy_from_slice(text.as_bytes());
    // Two texts are one text.
    std::str::from_utf8(bytes).map_or_else(|_| [prefix, text].concat().into(), Arc::from)
}

fn push_fixed(key: &mut String, c: char) {
    if matches!(c, '%' | '{' | '}') || c.is_control() {
        let mut bytes = [0; 4];
        key.extend(utf8_percent_encode(c.encode_utf8(&mut bytes), NON_ALPHANUMERIC));
    } else {
        key.push(c);
    }
}

pub(crate) fn encode(value: &str) -> percent_encoding::PercentEncode<'_> {
    utf8_percent_encode(value, VALUE)
}

/// Why a text cannot be a lock key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The key has no text at all.
    #[error("a lock key must not be empty")]
    Empty,
    /// A value in the key is empty, so that two different things could share one lock.
    #[error("a value in the lock key is empty; refuse the empty value before the lock is taken")]
    EmptyPart,
    /// The key's fixed text holds NUL, which some lock services cannot store.
    #[error("a lock key must not contain NUL")]
    Nul,
    /// The key is longer than [`MAX_KEY_BYTES`].
    #[error("a lock key must not be longer than 16384 bytes; lock by a digest of the long value")]
    TooLong,
}

/// A value that may stand in a lock key.
///
/// Its text must be the same for equal values and different for different ones, on every machine
/// and in every version of the program: that is why there is no implementation for floats, for
/// `Option` and for `Debug`. A newtype needs one line, see [`key_part!`](crate::key_part!); other
/// types say what their text is:
///
/// ```
/// use std::borrow::Cow;
/// use lockrt::{KeyPart, LockKey};
///
/// enum Region {
///     Eu,
///     Us,
/// }
///
/// impl KeyPart for Region {
///     fn key_part(&self) -> Cow<'_, str> {
///         Cow::Borrowed(match self {
///             Self::Eu => "eu",
///             Self::Us => "us",
///         })
///     }
/// }
///
/// assert_eq!(LockKey::of("stock:").part(&Region::Eu).build()?.as_str(), "stock:eu");
/// # let _ = Region::Us;
/// # Ok::<(), lockrt::InvalidKey>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key",
    label = "not a key part",
    note = "use an id that has a stable text, `{{value:display}}` for a type whose `Display` is stable, or make your own type a key part: `lockrt::key_part!(Name)` for a newtype, `impl lockrt::KeyPart for Name` for any other",
    note = "an `Option` is refused since every `None` would share one lock: unwrap it first; a float is refused since equal numbers may print differently"
)]
pub trait KeyPart {
    /// The value as text, before it is encoded.
    fn key_part(&self) -> Cow<'_, str>;
}

impl KeyPart for str {
    fn key_part(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl KeyPart for String {
    fn key_part(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl KeyPart for bool {
    fn key_part(&self) -> Cow<'_, str> {
        Cow::Borrowed(if *self { "true" } else { "false" })
    }
}

macro_rules! by_display {
    ($($(#[$attr:meta])* $type:ty),+ $(,)?) => {$(
        $(#[$attr])*
        impl KeyPart for $type {
            fn key_part(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        }
    )+};
}

by_display!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, char);
by_display!(
    std::num::NonZeroU8,
    std::num::NonZeroU16,
    std::num::NonZeroU32,
    std::num::NonZeroU64,
    std::num::NonZeroU128,
    std::num::NonZeroUsize,
    std::num::NonZeroI8,
    std::num::NonZeroI16,
    std::num::NonZeroI32,
    std::num::NonZeroI64,
    std::num::NonZeroI128,
    std::num::NonZeroIsize,
);
by_display!(std::net::IpAddr, std::net::Ipv4Addr, std::net::Ipv6Addr);
#[cfg(feature = "uuid")]
by_display!(uuid::Uuid);

macro_rules! by_reference {
    ($($type:ty),+ $(,)?) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: KeyPart + ?Sized> KeyPart for $type {
            fn key_part(&self) -> Cow<'_, str> {
                (**self).key_part()
            }
        }
    )+};
}

by_reference!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

#[diagnostic::do_not_recommend]
impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn key_part(&self) -> Cow<'_, str> {
        (**self).key_part()
    }
}

/// Makes newtypes key parts: the text of a tuple struct is that of its first field.
///
/// ```
/// use lockrt::LockKey;
///
/// struct TenantId(u32);
/// struct OrderId(String);
///
/// lockrt::key_part!(TenantId, OrderId);
///
/// let (tenant, order) = (TenantId(7), OrderId("a:1".into()));
/// let key = LockKey::of("order:").part(&tenant).text("/").part(&order).build()?;
/// assert_eq!(key.as_str(), "order:7/a%3A1");
/// # Ok::<(), lockrt::InvalidKey>(())
/// ```
///
/// Two newtypes over one value have one text: `order:{tenant}` and `order:{user}` are the same key
/// where both ids are 7, so let the fixed text say which it is.
///
/// A type whose field is no key part does not compile:
///
/// ```compile_fail,E0277
/// struct Price(f64);
///
/// lockrt::key_part!(Price);
/// ```
#[macro_export]
macro_rules! key_part {
    ($($newtype:ty),+ $(,)?) => {$(
        impl $crate::KeyPart for $newtype {
            fn key_part(&self) -> ::std::borrow::Cow<'_, ::core::primitive::str> {
                $crate::KeyPart::key_part(&self.0)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_place() {
        let forged = LockKey::of("q:").part("a:b").build().unwrap();
        let real = LockKey::of("q:").part("a").text(":").part("b").build().unwrap();
        assert_ne!(forged, real);
        assert_eq!(forged.as_str(), "q:a%3Ab");
        assert_eq!(LockKey::of("q:").part("%3A").build().unwrap().as_str(), "q:%253A");
    }

    #[test]
    fn fixed_text_keeps_everything_but_braces_percent_and_controls() {
        let key = LockKey::new("a/b:ü {x}% \n'\"").unwrap();
        assert_eq!(key.as_str(), "a/b:ü %7Bx%7D%25 %0A'\"");
    }

    #[test]
    fn empty_nul_and_endless_keys_are_refused() {
        assert_eq!(LockKey::new(""), Err(InvalidKey::Empty));
        assert_eq!(LockKey::new("a\0b"), Err(InvalidKey::Nul));
        assert_eq!(LockKey::of("q:").part("").build(), Err(InvalidKey::EmptyPart));
        assert_eq!(LockKey::new("x".repeat(MAX_KEY_BYTES + 1)), Err(InvalidKey::TooLong));
        let value = "ü".repeat(MAX_KEY_BYTES / 4);
        assert_eq!(LockKey::of("q:").part(&value).build(), Err(InvalidKey::TooLong));
    }

    #[test]
    fn a_long_key_is_stored_by_its_digest_and_a_short_one_as_it_is() {
        let long = LockKey::new("k".repeat(256)).unwrap();
        let stored = long.stored("shop:");
        assert!(stored.as_str().starts_with("shop:%h"));
        assert_eq!(stored.as_str().len(), "shop:%h".len() + 64);
        let forged = LockKey::new(&stored.as_str()["shop:".len()..]).unwrap();
        assert_ne!(forged.stored("shop:"), stored);
        let short = LockKey::new("k".repeat(255)).unwrap();
        assert_eq!(short.stored("").as_str(), short.as_str());
        for prefix in ["shop:", &format!("{}:", "ü".repeat(100))] {
            assert_eq!(short.stored(prefix).as_str(), format!("{prefix}{}", short.as_str()));
        }
    }

    #[test]
    fn debug_and_display_hide_the_text() {
        let key = LockKey::new("mail:jane@example.org").unwrap();
        for shown in [format!("{key}"), format!("{key:?}")] {
            assert!(!shown.contains("jane"), "{shown}");
            assert!(shown.contains("sha256:"), "{shown}");
        }
    }

    #[test]
    fn references_and_smart_pointers_are_the_value_they_point_to() {
        let parts: [&dyn KeyPart; 5] =
            [&"a", &Box::new("a"), &Arc::new(String::from("a")), &Cow::Borrowed("a"), &Rc::new('a')];
        for part in parts {
            assert_eq!(part.key_part(), "a");
        }
        assert_eq!(u64::MAX.key_part(), "18446744073709551615");
        assert_eq!((-3i8).key_part(), "-3");
    }
}
