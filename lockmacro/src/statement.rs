//! A `let` or an expression under the attribute, such as a closure. The compiler refuses that by itself, so that an error
//! of ours would be the second one for one mistake.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::Expr;

use crate::function::MOVE_IT;

/// The statement, if it is one, beside a lint: lints come last, if the compiler has had nothing to say. It has not
/// where somebody has switched on attributes on statements.
pub(crate) fn linted(item: &TokenStream) -> Option<TokenStream> {
    let first = item.clone().into_iter().next()?;
    let lint = lint(first.span());
    match &first {
        TokenTree::Ident(word) if word == "let" => Some(quote_spanned!(Span::mixed_site()=> #item #lint)),
        _ => match syn::parse2(item.clone()).ok()? {
            Expr::Closure(_) | Expr::Async(_) | Expr::Block(_) => {
                Some(quote_spanned!(Span::mixed_site()=> { #lint #item }))
            }
            _ => None,
        },
    }
}

fn lint(at: Span) -> TokenStream {
    let lock = Ident::new("distributed_lock", at);
    quote_spanned! {at=> {
        #[must_use = #MOVE_IT]
        fn #lock() -> bool { false }
        #[deny(unused_must_use)]
        #lock();
    }}
}
