//! Strings known at compile time.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Lit, Macro, Result, Token};

/// A string known at compile time: a literal, or `concat!` of literals and `stringify!`.
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) span: Span,
}

impl Text {
    pub(crate) fn read(value: &Expr, argument: &str) -> Result<Self> {
        let sentence =
            format!("`{argument}` is a string literal, or `concat!(..)` of literals and `stringify!(name)`");
        match value {
            Expr::Group(group) => Self::read(&group.expr, argument),
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Ok(Self { value: text.value(), span: text.span() }),
                _ => Err(Error::new_spanned(value, sentence)),
            },
            Expr::Macro(call) if is(&call.mac, "concat") => {
                let span =
                    call.mac.path.segments.last().map_or_else(Span::call_site, |last| last.ident.span());
                Ok(Self { value: concat(&call.mac)?, span })
            }
            _ => Err(Error::new_spanned(value, sentence)),
        }
    }
}

fn is(mac: &Macro, name: &str) -> bool {
    mac.path.segments.last().is_some_and(|last| last.ident == name)
}

fn concat(mac: &Macro) -> Result<String> {
    let parts = mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated)?;
    parts.iter().map(concat_part).collect()
}

fn concat_part(part: &Expr) -> Result<String> {
    let sentence = "`concat!` in an attribute takes literals, `concat!(..)` and `stringify!(name)`";
    match part {
        Expr::Group(group) => concat_part(&group.expr),
        Expr::Macro(call) if is(&call.mac, "concat") => concat(&call.mac),
        Expr::Macro(call) if is(&call.mac, "stringify") => stringify(&call.mac.tokens),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Ok(text.value()),
            Lit::Int(int) => Ok(int.base10_digits().to_owned()),
            Lit::Bool(truth) => Ok(truth.value.to_string()),
            Lit::Char(letter) => Ok(letter.value().to_string()),
            _ => Err(Error::new_spanned(part, sentence)),
        },
        _ => Err(Error::new_spanned(part, sentence)),
    }
}

/// One name only: how several tokens are spaced changes between compilers, and with it the key would.
fn stringify(tokens: &TokenStream) -> Result<String> {
    let mut inside = tokens.clone().into_iter();
    match (inside.next(), inside.next()) {
        (Some(TokenTree::Ident(name)), None) => Ok(name.to_string()),
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::None => {
            stringify(&group.stream())
        }
        _ => Err(Error::new_spanned(
            tokens,
            "`stringify!` in an attribute takes one name, such as the `$name` of a macro",
        )),
    }
}
