//! Key templates: text and `{expr}` segments, and what may stand in them.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, Ident, Literal, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Error, Expr, ExprCall, ExprPath, Lit, Macro, PatIdent, Result, Token};

use crate::diag::{Mistakes, list, nearest};

/// Encoded values never contain these, so one of them between two values tells where the first ends.
const SEPARATORS: [char; 5] = [':', '/', '|', '#', ','];

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

/// A checked template.
pub(crate) struct KeyTemplate {
    pub(crate) segments: Vec<Segment>,
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A piece of a template.
pub(crate) enum Segment {
    Text(String),
    Value(Value),
}

/// A placeholder.
pub(crate) struct Value {
    pub(crate) expr: Expr,
    /// `{x:display}`
    pub(crate) display: bool,
}

/// What the expressions of a key may name.
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a [Ident],
    pub(crate) receiver: Option<Span>,
}

impl KeyTemplate {
    /// `None` if anything is wrong with it; every mistake is on record then.
    pub(crate) fn read(text: &Text, mistakes: &mut Mistakes) -> Option<Self> {
        let before = mistakes.len();
        let mut segments = Vec::new();
        let mut rest = text.value.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            push_text(&mut segments, &rest[..at]);
            rest = match placeholder(&rest[at..]) {
                Ok((source, tokens, after)) => {
                    segments.extend(mistakes.keep(value(source, tokens, text.span)).map(Segment::Value));
                    after
                }
                Err((sentence, after)) => {
                    mistakes.push(text.span, sentence);
                    after
                }
            };
        }
        push_text(&mut segments, rest);
        if mistakes.len() == before {
            check_text(&segments, text.span, mistakes);
            check_separators(&segments, text.span, mistakes);
        }
        (mistakes.len() == before).then(|| Self { segments, text: text.value.clone(), span: text.span })
    }

    /// Gives every name of the placeholders its argument; names that are none become mistakes.
    pub(crate) fn resolve(&mut self, scope: &Scope<'_>, mistakes: &mut Mistakes) {
        for segment in &mut self.segments {
            if let Segment::Value(value) = segment {
                let error =
                    Roots::of(&value.expr).into_iter().find_map(|root| scope.refusal(&root, self.span));
                match error {
                    Some(error) => mistakes.add(error),
                    None => value.expr = scope.bind(&value.expr, self.span),
                }
            }
        }
    }
}

fn push_text(segments: &mut Vec<Segment>, text: &str) {
    if !text.is_empty() {
        segments.push(Segment::Text(text.to_owned()));
    }
}

/// Splits `{source}after`: the first `}` before which everything lexes as Rust ends the placeholder.
fn placeholder(text: &str) -> std::result::Result<(&str, TokenStream, &str), (&'static str, &str)> {
    if text.starts_with("{{") || text.starts_with("}}") {
        return Err((
            "a key holds no braces, so `{{` and `}}` mean nothing here: write `{name}` for a value",
            &text[2..],
        ));
    }
    let Some(inside) = text.strip_prefix('{') else {
        return Err(("this `}` closes nothing: a key holds no braces, so remove it", &text[1..]));
    };
    inside
        .match_indices('}')
        .find_map(|(end, _)| {
            Some((&inside[..end], TokenStream::from_str(&inside[..end]).ok()?, &inside[end + 1..]))
        })
        .ok_or(("a `{` in this key is never closed: write `{name}`", ""))
}

fn check_text(segments: &[Segment], span: Span, mistakes: &mut Mistakes) {
    if segments.is_empty() {
        mistakes.push(span, "the key is empty: name what is locked, e.g. `quote:{id}`");
    }
    for segment in segments {
        let Segment::Text(text) = segment else {
            continue;
        };
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '%') {
            let sentence = format!(
                "{bad:?} cannot stand in the text of a key: write printable ASCII without space, `%` and braces"
            );
            mistakes.push(span, sentence);
        }
    }
}

fn check_separators(segments: &[Segment], span: Span, mistakes: &mut Mistakes) {
    let mut open: Option<&Value> = None;
    for segment in segments {
        match segment {
            Segment::Text(text) if text.contains(SEPARATORS) => open = None,
            Segment::Text(_) => {}
            Segment::Value(value) => {
                if let Some(left) = open.replace(value) {
                    let (left, right) = (left.expr.to_token_stream(), value.expr.to_token_stream());
                    let sentence = format!(
                        "nothing separates `{{{left}}}` from `{{{right}}}`, so two different pairs of values could give one key: \
                         put one of `:` `/` `|` `#` `,` between them"
                    );
                    mistakes.push(span, sentence);
                }
            }
        }
    }
}

fn value(source: &str, tokens: TokenStream, span: Span) -> Result<Value> {
    let refuse = |sentence: String| Err(Error::new(span, sentence));
    let source = source.trim();
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
    let display = match form {
        None => false,
        Some(form) => form_is_display(source, &form).map_err(|sentence| Error::new(span, sentence))?,
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
    Ok(Value { expr, display })
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

fn form_is_display(source: &str, form: &[TokenTree]) -> std::result::Result<bool, String> {
    let text = form.iter().cloned().collect::<TokenStream>().to_string();
    match text.as_str() {
        "display" => Ok(true),
        "hash" => {
            Err(format!("`{{{source}}}`: `:hash` is not supported yet: pass a digest computed by the caller"))
        }
        _ if text.contains('?') => Err(format!(
            "`{{{source}}}`: a key must not depend on a `Debug` form, which may change: write a stable value, or `:display`"
        )),
        _ => Err(format!("`{{{source}}}`: a key knows no format but `:display`: remove `:{text}`")),
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

/// The variables an expression reads.
#[derive(Default)]
struct Roots {
    read: Vec<Ident>,
    bound: Vec<Ident>,
}

impl Roots {
    fn of(expr: &Expr) -> Vec<Ident> {
        let mut roots = Self::default();
        if let Expr::Infer(infer) = expr {
            roots.read.push(Ident::new("_", infer.underscore_token.span));
        }
        roots.visit_expr(expr);
        let bound = roots.bound;
        roots.read.into_iter().filter(|word| !bound.contains(word)).collect()
    }
}

impl<'ast> Visit<'ast> for Roots {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.read.extend(path.path.get_ident().filter(|_| path.qself.is_none()).cloned());
        visit::visit_expr_path(self, path);
    }
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        // A lone name that is called is a function, not an argument.
        if !matches!(&*call.func, Expr::Path(path) if path.path.get_ident().is_some()) {
            self.visit_expr(&call.func);
        }
        call.args.iter().for_each(|arg| self.visit_expr(arg));
    }
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.bound.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

impl Scope<'_> {
    fn find(&self, word: &Ident) -> Option<&Ident> {
        self.names.iter().find(|name| name.unraw() == word.unraw())
    }

    /// Why a root name is refused. Names with a capital are constants and left to the compiler.
    fn refusal(&self, root: &Ident, span: Span) -> Option<Error> {
        let word = root.unraw().to_string();
        if root == "self" {
            let sentence = "`self` in the key: this function has no `self`, name one of its arguments";
            return self.receiver.is_none().then(|| Error::new(span, sentence));
        }
        if self.find(root).is_some() || word.starts_with(char::is_uppercase) {
            return None;
        }
        let names: Vec<String> = self.names.iter().map(|name| name.unraw().to_string()).collect();
        let hint =
            nearest(&word, &names).map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        let known = if names.is_empty() {
            "there are none".into()
        } else {
            format!("the arguments are {}", list(&names))
        };
        Some(Error::new(span, format!("no argument is called `{word}`: {hint}{known}")))
    }

    /// The tokens come from a string and so belong to no scope: arguments get their own, the rest the attribute's.
    fn bind(&self, expr: &Expr, span: Span) -> Expr {
        let plain = matches!(expr, Expr::Path(_));
        let bound = self.bind_tokens(expr.to_token_stream(), span, plain);
        syn::parse2(bound).unwrap_or_else(|_| expr.clone())
    }

    fn bind_tokens(&self, tokens: TokenStream, span: Span, plain: bool) -> TokenStream {
        tokens.into_iter().map(|tree| self.bind_token(tree, span, plain)).collect()
    }

    fn bind_token(&self, tree: TokenTree, span: Span, plain: bool) -> TokenTree {
        let here = Span::mixed_site().located_at(span);
        match tree {
            TokenTree::Group(group) => {
                let mut bound = Group::new(group.delimiter(), self.bind_tokens(group.stream(), span, plain));
                bound.set_span(here);
                TokenTree::Group(bound)
            }
            TokenTree::Ident(mut word) => {
                match (self.find(&word), self.receiver) {
                    (Some(name), _) if plain => return TokenTree::Ident(name.clone()),
                    (Some(name), _) => word.set_span(span.resolved_at(name.span())),
                    (None, Some(receiver)) if word == "self" => word.set_span(span.resolved_at(receiver)),
                    (None, _) => word.set_span(here),
                }
                TokenTree::Ident(word)
            }
            // A format string inside a placeholder looks its names up where the user wrote it.
            TokenTree::Literal(literal) => TokenTree::Literal(at(literal, span)),
            TokenTree::Punct(mut punct) => {
                punct.set_span(here);
                TokenTree::Punct(punct)
            }
        }
    }
}

fn at(mut literal: Literal, span: Span) -> Literal {
    literal.set_span(span);
    literal
}
