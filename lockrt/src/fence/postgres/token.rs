//! A token as a value of PostgreSQL: a `bigint`.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::token::FencingToken;

/// A parameter of type `bigint`, for a column of the data. Tokens of lockrt's own backends fit; a greater one fails
/// the statement, and nothing is sent.
impl ToSql for FencingToken {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        i64::try_from(self.get())?.to_sql(ty, out)
    }

    accepts!(INT8);
    to_sql_checked!();
}

/// A `bigint` that is read back; a negative one is no token.
impl<'a> FromSql<'a> for FencingToken {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::new(u64::try_from(i64::from_sql(ty, raw)?)?))
    }

    accepts!(INT8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(token: u64) -> Option<BytesMut> {
        let mut bytes = BytesMut::new();
        FencingToken::new(token).to_sql_checked(&Type::INT8, &mut bytes).ok().map(|_| bytes)
    }

    #[test]
    fn a_token_comes_back_as_it_was_sent() {
        for token in [1, 1_796_063_926_123_456, i64::MAX.unsigned_abs()] {
            let read = FencingToken::from_sql(&Type::INT8, &sent(token).unwrap());
            assert_eq!(read.unwrap().get(), token);
        }
    }

    #[test]
    fn what_is_no_token_of_a_bigint_is_refused() {
        assert!(sent(u64::MAX).is_none());
        assert!(FencingToken::from_sql(&Type::INT8, &(-1_i64).to_be_bytes()).is_err());
        assert!(FencingToken::new(1).to_sql_checked(&Type::TEXT, &mut BytesMut::new()).is_err());
    }
}
