//! One `{expr}` of a key: what may stand in it.

use proc_macro2::{Delimiter, Ident, Spacing, Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::{Error, Expr, Result};

use crate::written::is_oversized;

/// Calls that answer differently each time.
const FRESH: [&str; 18] = [
    "now",
    "now_utc",
    "now_local",
    "now_v1",
    "now_v6",
    "now_v7",
    "utc_now",
    "elapsed",
    "new_v1",
    "new_v4",
    "new_v6",
    "new_v7",
    "random",
    "random_range",
    "gen_range",
    "thread_rng",
    "rng",
    "nanoid",
];

/// Crates and types that offer little but such calls.
const FRESH_ROOTS: [&str; 5] = ["rand", "fastrand", "nanoid", "SystemTime", "Instant"];

/// A placeholder.
pub(crate) struct Value {
    pub(crate) expr: Expr,
    pub(crate) form: Form,
}

/// How a value becomes text.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// `{x}`: as its `KeyPart` says.
    Part,
    /// `{x:display}`: as its `Display` says.
    Display,
    /// `{x:hash}`: the digest of its `KeyPart`.
    Hash,
}

impl Value {
    /// Reads `{source}`, of which the tokens are known.
    pub(crate) fn read(source: &str, tokens: TokenStream, span: Span) -> Result<Self> {
        let refuse = |sentence: String| Err(Error::new(span, sentence));
        let source = source.trim();
        if is_oversized(tokens.clone()) {
            return refuse(
                "a placeholder of this key is too long: move the expression into a function".into(),
            );
        }
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        if contains(&trees, &|tree, _| is_punct(tree, '$')) {
            return refuse(format!(
                "`{{{source}}}`: a `$` variable is not replaced inside a string: write `key = concat!(\"..\", stringify!($name))`"
            ));
        }
        let (trees, form) = split_form(trees);
        if trees.is_empty() {
            return refuse(format!("`{{{source}}}` names nothing: write the argument, as in `{{id}}`"));
        }
        let form = match form {
            None => Form::Part,
            Some(form) => read_form(source, &form).map_err(|sentence| Error::new(span, sentence))?,
        };
        if let Some(sentence) = forbidden(&trees) {
            return refuse(format!("`{{{source}}}`: {sentence}"));
        }
        let expr = expression(trees).ok_or_else(|| {
        Error::new(
            span,
            format!(
                "`{{{source}}}` is no Rust expression: write an argument or an expression over the arguments"
            ),
        )
    })?;
        if let Expr::Lit(_) = expr {
            return refuse(format!(
                "`{{{source}}}` is no argument: write its name, or the text itself without braces"
            ));
        }
        Ok(Self { expr, form })
    }
}

/// Splits at the last single `:` that stands in no bracket.
fn split_form(mut trees: Vec<TokenTree>) -> (Vec<TokenTree>, Option<Vec<TokenTree>>) {
    let mut colon = None;
    let mut index = 0;
    while index < trees.len() {
        if is_punct(&trees[index], ':') {
            if trees.get(index + 1).is_some_and(|next| is_punct(next, ':')) && is_joint(&trees[index]) {
                index += 1;
            } else {
                colon = Some(index);
            }
        }
        index += 1;
    }
    let form = colon.map(|at| trees.split_off(at).split_off(1));
    (trees, form)
}

fn read_form(source: &str, form: &[TokenTree]) -> std::result::Result<Form, String> {
    let text = form.iter().cloned().collect::<TokenStream>().to_string();
    match text.as_str() {
        "display" => Ok(Form::Display),
        "hash" => Ok(Form::Hash),
        _ if text.contains('?') => Err(format!(
            "`{{{source}}}`: a key must not depend on a `Debug` form, which may change: write a stable value, or `:display`"
        )),
        _ => {
            Err(format!("`{{{source}}}`: a key knows no format but `:display` and `:hash`: remove `:{text}`"))
        }
    }
}

/// What makes an expression unfit for a key, wherever in it that stands.
fn forbidden(trees: &[TokenTree]) -> Option<String> {
    if contains(trees, &|tree, _| is_punct(tree, '?')) {
        return Some(
            "`?` cannot be used in a key, which must not fail: compute the value in the caller and pass it"
                .into(),
        );
    }
    if contains(
        trees,
        &|tree, _| matches!(tree, TokenTree::Ident(word) if word == "await" || word == "return"),
    ) {
        return Some("a key can neither wait nor return: compute the value in the caller and pass it".into());
    }
    let sentence =
        "this value is another one in every call, so the lock would exclude nobody: pass it as an argument";
    contains(trees, &is_fresh).then(|| sentence.into())
}

fn is_fresh(tree: &TokenTree, next: Option<&TokenTree>) -> bool {
    let TokenTree::Ident(word) = tree else {
        return false;
    };
    let called = matches!(next, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    let macro_or_path = next.is_some_and(|next| is_punct(next, '!') || is_punct(next, ':'));
    (called && FRESH.iter().any(|fresh| word == fresh))
        || (macro_or_path && FRESH_ROOTS.iter().any(|root| word == root))
}

/// Whether any token, with the one after it, meets the test; groups are searched too.
fn contains(trees: &[TokenTree], test: &dyn Fn(&TokenTree, Option<&TokenTree>) -> bool) -> bool {
    trees.iter().enumerate().any(|(index, tree)| {
        let inside = match tree {
            TokenTree::Group(group) => contains(&group.stream().into_iter().collect::<Vec<_>>(), test),
            _ => false,
        };
        inside || test(tree, trees.get(index + 1))
    })
}

fn is_punct(tree: &TokenTree, letter: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == letter)
}

fn is_joint(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint)
}

/// The expression; a lone keyword is the raw identifier of that name, so that `{type}` means `r#type`.
fn expression(mut trees: Vec<TokenTree>) -> Option<Expr> {
    if let [TokenTree::Ident(word)] = trees.as_slice() {
        trees = vec![TokenTree::Ident(raw_if_keyword(&word.unraw().to_string(), word.span()))];
    }
    syn::parse2(trees.into_iter().collect()).ok()
}

/// The identifier, raw where it must be; the words that cannot be raw stay as they are.
fn raw_if_keyword(word: &str, span: Span) -> Ident {
    let path_word = matches!(word, "self" | "Self" | "super" | "crate" | "_" | "true" | "false");
    if path_word || syn::parse_str::<Ident>(word).is_ok() {
        Ident::new(word, span)
    } else {
        Ident::new_raw(word, span)
    }
}
