//! Tests of the macro as a function of tokens.

mod counting;
mod diagnostics;
mod golden;
mod keys;
mod mutation;
mod robust;
mod templates;

use proc_macro2::TokenStream;

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The expansion of an attribute on an item.
fn expand(args: &str, item: &str) -> String {
    crate::expand(tokens(args), tokens(item)).to_string()
}

/// The sentences with which an attribute on an item is refused.
fn mistakes(args: &str, item: &str) -> Vec<String> {
    let mut mistakes = crate::diag::Mistakes::default();
    let args = crate::args::Args::read(tokens(args), &mut mistakes);
    let _ = crate::model::LockedFn::check(args, tokens(item), &mut mistakes);
    mistakes.sentences()
}
