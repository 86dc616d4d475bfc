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
        let stored = FencingToken::new(self.seen);
        let written = self.written && offered == stored;
        if offered < stored || (written && idiom == Idiom::Once) {
            return Err(FenceError::refused(resource.clone(), offered, stored));
        }
        *self = Self { seen: offered.get(), written: written || idiom != Idiom::Register };
        Ok(())
    }

    /// The marks that a store has kept; none if they can be those of no holder.
    #[cfg(feature = "object_store")]
    pub(super) fn stored(seen: u64, written: bool) -> Option<Self> {
        (seen > 0).then_some(Self { seen, written })
    }

    /// Whether the grant of the greatest token has written.
    #[cfg(feature = "object_store")]
    pub(super) fn written(self) -> bool {
        self.written
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
