//! What a fence knows of one resource, and whom it lets pass: [`Marks`].

use crate::fence::error::{FenceError, Mistake};
use crate::fence::resource::Resource;
use crate::token::FencingToken;

/// What a holder asks of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Idiom {
    /// To be known, so that older ones are refused from now on.
    Register,
    /// To write, unless a later one is known.
    Write,
    /// To write, unless a later one is known or this one has written.
    Once,
}

/// The greatest token seen, and whether its grant has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    seen: u64,
    written: bool,
}

impl Marks {
    /// Lets `offered` pass and notes it, or refuses it and changes nothing.
    pub(super) fn pass(
        &mut self,
        resource: &Resource,
        offered: FencingToken,
        idiom: Idiom,
    ) -> Result<(), FenceError> {
        let (resource, stored) = (|| resource.clone(), FencingToken::new(self.seen));
        if offered < stored {
            return Err(FenceError::Stale { resource: resource(), offered, stored });
        }
        let written = self.written && offered == stored;
        if written && idiom == Idiom::Once {
            return Err(FenceError::Repeated { resource: resource(), offered, stored });
        }
        *self = Self { seen: offered.get(), written: written || idiom != Idiom::Register };
        Ok(())
    }

    /// The greatest token seen.
    pub(super) fn seen(self) -> Option<FencingToken> {
        (self.seen > 0).then(|| FencingToken::new(self.seen))
    }
}

/// The resource of this name and the token in what a caller gave for one.
pub(super) fn checked(
    resource: &str,
    token: impl Into<Option<FencingToken>>,
) -> Result<(Resource, FencingToken), FenceError> {
    let resource = Resource::new(resource)?;
    let token = usable(&resource, token)?;
    Ok((resource, token))
}

/// The token in what a caller gave for one.
pub(super) fn usable(
    resource: &Resource,
    token: impl Into<Option<FencingToken>>,
) -> Result<FencingToken, FenceError> {
    match token.into() {
        None => Err(FenceError::NoToken { resource: resource.clone() }),
        Some(token) if token.get() == 0 => Err(FenceError::Invalid(Mistake::TokenZero)),
        Some(token) => Ok(token),
    }
}
