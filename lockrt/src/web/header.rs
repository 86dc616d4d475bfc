//! A fencing token as the value of an HTTP header.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::token::FencingToken;

/// The header that carries the fencing token of whoever sends a request: decimal digits.
pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

/// A header that holds no fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidToken {
    /// More than one: who is it?
    #[error(
        "the request has several `fencing-token` headers; send the one of the lease that it is made under"
    )]
    Several,
    /// No number, or one that no grant has.
    #[error(
        "the header `fencing-token` is no fencing token: it has decimal digits, is at least 1 and has 64 bits"
    )]
    NoToken,
}

/// The value of [`FENCING_TOKEN`] for `token`, where a request is made by hand.
#[must_use]
pub fn value_of(token: FencingToken) -> HeaderValue {
    HeaderValue::from(token.get())
}

/// The token that a request carries; none if it carries none.
///
/// # Errors
///
/// [`InvalidToken`] if what it carries cannot be one. Refuse the request then: a holder whose token is
/// not understood must not pass as one that has none.
pub fn token_of(headers: &HeaderMap) -> Result<Option<FencingToken>, InvalidToken> {
    let mut values = headers.get_all(FENCING_TOKEN).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(InvalidToken::Several);
    }
    // `parse` alone would take a plus sign.
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(number @ 1..) => Ok(Some(FencingToken::new(number))),
        _ => Err(InvalidToken::NoToken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&'static str]) -> Result<Option<FencingToken>, InvalidToken> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FENCING_TOKEN, HeaderValue::from_static(value));
        }
        token_of(&headers)
    }

    #[test]
    fn a_token_arrives_as_it_was_sent() {
        for number in [1, 1_700_000_000_000_000, u64::MAX] {
            let token = FencingToken::new(number);
            let headers = HeaderMap::from_iter([(FENCING_TOKEN, value_of(token))]);
            assert_eq!(token_of(&headers), Ok(Some(token)));
        }
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn what_is_no_token_is_told_apart_from_none() {
        for value in
            ["", "0", "000", "+1", "-1", " ", "1 ", "1,2", "0x1", "1.0", "one", "18446744073709551616"]
        {
            assert_eq!(read(&[value]), Err(InvalidToken::NoToken), "{value:?}");
        }
        assert_eq!(read(&["1", "1"]), Err(InvalidToken::Several));
    }
}
