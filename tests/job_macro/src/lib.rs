//! A job attribute of the kind that takes the `async` away.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{ItemFn, parse_macro_input};

/// Makes of `async fn f(..)` a `fn f() -> Builder`, with the work as a function inside. All other attributes stay
/// outside, on the function that builds. `Builder::new(work)` is whatever the caller has by that name.
#[proc_macro_attribute]
pub fn job(_: TokenStream, item: TokenStream) -> TokenStream {
    let ItemFn { attrs, vis, mut sig, block, .. } = parse_macro_input!(item as ItemFn);
    let name = std::mem::replace(&mut sig.ident, format_ident!("work"));
    let builder = quote! {
        #(#attrs)*
        #vis fn #name() -> Builder {
            #sig #block
            Builder::new(work)
        }
    };
    builder.into()
}
