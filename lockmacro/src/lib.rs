//! The `#[distributed_lock]` attribute of `lockrt`.
//!
//! Text becomes `Args`, arguments and function become `LockedFn`, and that becomes tokens. Use it
//! through `lockrt`, which re-exports it.

mod args;
mod boxed;
mod diag;
mod expand;
mod function;
mod key;
mod model;
mod placeholder;
mod policy;
mod scope;
mod site;
#[cfg(test)]
mod tests;
mod text;
mod written;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

#[doc = include_str!("attribute.md")]
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand(args.into(), item.into()).into()
}

/// The whole macro, on tokens that exist without a compiler, so that tests can call it.
pub(crate) fn expand(args: TokenStream2, item: TokenStream2) -> TokenStream2 {
    let mut mistakes = diag::Mistakes::default();
    let args = args::Args::read(args, &mut mistakes);
    let locked = model::LockedFn::check(args, item, &mut mistakes);
    locked.map_or_else(|item| mistakes.beside(item), |locked| expand::tokens(&locked))
}
