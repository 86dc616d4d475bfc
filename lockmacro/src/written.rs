//! The list of arguments as written: `name = value`, separated by commas. What is wrong with the list itself is one
//! mistake each, and ends nothing.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::parse::discouraged::Speculative as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, Lit, Path, Result, Token};

use crate::diag::{Mistakes, list, nearest};

/// Every argument, and how it is written.
const ARGUMENTS: [(&str, &str); 14] = [
    ("key", "`key = \"quote:{id}\"`"),
    ("ttl_ms", "`ttl_ms = 10_000`"),
    (
        "on_contention",
        "`on_contention = fail`, `skip`, `skip(value)`, `wait(timeout_ms = 2_000)` or `wait(forever)`",
    ),
    ("on_error", "`on_error = |error| value`"),
    ("renew", "`renew = off` or `renew = auto(max_ms = 600_000)`"),
    ("on_lost", "`on_lost = cancel` or `on_lost = report`"),
    ("on_cancel", "`on_cancel = release` or `on_cancel = hold`"),
    ("release", "`release = awaited` or `release = started`"),
    ("min_hold_ms", "`min_hold_ms = 1_000`"),
    ("lease", "`lease = held`"),
    ("fencing", "`fencing = required`"),
    ("manager", "`manager = &state.locks`"),
    ("name", "`name = \"quotes.recalculate\"`"),
    ("crate", "`crate = ::lockrt`"),
];

const REQUIRED: [&str; 2] = ["key", "ttl_ms"];

const NO_COMMA: &str = "arguments are separated by commas: write `,` before this";

/// Most tokens of an attribute, and deepest nesting of their brackets.
const LONGEST: usize = 400;
const DEEPEST: usize = 32;

/// One argument as written; `usage` shows how it is written right.
pub(crate) struct Written {
    pub(crate) word: &'static str,
    pub(crate) usage: &'static str,
    pub(crate) value: Expr,
}

/// Gives each argument to `set`, once; what is wrong with the list becomes mistakes.
pub(crate) fn read(
    tokens: TokenStream,
    mistakes: &mut Mistakes,
    set: impl FnMut(Written, &mut Mistakes) -> Result<()>,
) {
    if is_oversized(tokens.clone()) {
        let sentence = "this attribute is too long: move the expression in it into a function";
        mistakes.push(Span::call_site(), sentence);
        return;
    }
    let mut arguments = Arguments { seen: Vec::new(), unclear: false, mistakes, set };
    if let Err(error) = (|input: ParseStream<'_>| arguments.read_all(input)).parse2(tokens) {
        arguments.mistakes.add(error);
    }
    arguments.report_missing();
}

/// Whether tokens are more than anybody writes by hand: the parser recurses, and must not run out of stack.
pub(crate) fn is_oversized(tokens: TokenStream) -> bool {
    fn count(tokens: TokenStream, depth: usize, total: &mut usize) -> bool {
        depth < DEEPEST
            && tokens.into_iter().all(|tree| {
                *total += 1;
                let inside = match tree {
                    TokenTree::Group(group) => group.stream(),
                    _ => return *total < LONGEST,
                };
                *total < LONGEST && count(inside, depth + 1, total)
            })
    }
    !count(tokens, 0, &mut 0)
}

struct Arguments<'m, F> {
    /// The names that stand somewhere, and whether each had a right value.
    seen: Vec<(&'static str, bool)>,
    /// Whether some argument may be any of them, so that none is known to be missing.
    unclear: bool,
    mistakes: &'m mut Mistakes,
    set: F,
}

impl<F: FnMut(Written, &mut Mistakes) -> Result<()>> Arguments<'_, F> {
    fn read_all(&mut self, input: ParseStream<'_>) -> Result<()> {
        while !input.is_empty() {
            if let Err(error) = self.read_one(input) {
                self.mistakes.add(error);
                if begins(input) {
                    self.read_silently(input);
                }
                self.skip(input)?;
            } else if begins(input) {
                self.mistakes.push(input.span(), NO_COMMA);
            }
            if input.peek(Token![,]) {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    /// Of two names before one `=` nobody knows which was meant; the first has its mistake.
    fn read_silently(&mut self, input: ParseStream<'_>) {
        let (mistakes, seen) = (self.mistakes.len(), self.seen.len());
        let _ = self.read_one(input);
        self.mistakes.truncate(mistakes);
        self.seen[seen..].iter_mut().for_each(|(_, right)| *right = false);
    }

    fn read_one(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            self.unclear = true;
            Error::new(error.span(), "an argument is written `name = value`, e.g. `ttl_ms = 10_000`")
        })?;
        let Some((word, usage)) = known(&name) else {
            return Err(self.unknown(input, &name));
        };
        let twice = self.seen.contains(&(word, true));
        let right = self.read_value(input, &name, (word, usage), twice);
        self.seen.push((word, matches!(right, Ok(true))));
        right.map(drop)
    }

    /// Whether all is right with the value; a mistake that is not given back is on record.
    fn read_value(
        &mut self,
        input: ParseStream<'_>,
        name: &Ident,
        (word, usage): (&'static str, &'static str),
        twice: bool,
    ) -> Result<bool> {
        if !input.peek(Token![=]) {
            return Err(Error::new(name.span(), format!("`{word}` needs a value: write {usage}")));
        }
        let equals: Token![=] = input.parse()?;
        let ahead = input.fork(); // what is left of a value in brackets is no further mistake
        let value = ahead.parse::<Expr>().map_err(|error| {
            let at = if input.is_empty() || input.peek(Token![,]) { equals.span } else { error.span() };
            Error::new(at, format!("this is no value for `{word}`: write {usage}"))
        })?;
        input.advance_to(&ahead);
        let (tokens, likely) = (value.to_token_stream(), likely(&value));
        if !input.is_empty() && !input.peek(Token![,]) && !begins(input) {
            self.mention(tokens);
            return Err(Error::new(input.span(), NO_COMMA));
        }
        if twice {
            self.unclear = true;
            return Err(Error::new(name.span(), format!("`{word}` stands here twice: keep one")));
        }
        let before = self.mistakes.len();
        let written = Written { word, usage, value: ungrouped(value) };
        (self.set)(written, self.mistakes).inspect_err(|_| {
            // It may be the value of another argument, or hold one.
            self.seen.extend(likely);
            self.mention(tokens);
        })?;
        Ok(self.mistakes.len() == before)
    }

    fn unknown(&mut self, input: ParseStream<'_>, name: &Ident) -> Error {
        // The value may hold commas, as closures do; if it is an expression, it is skipped as one.
        if input.peek(Token![=]) && input.parse::<Token![=]>().is_ok() {
            let ahead = input.fork();
            if let Ok(value) = ahead.parse::<Expr>() {
                input.advance_to(&ahead);
                self.seen.extend(likely(&value));
            }
        }
        let word = name.unraw().to_string();
        let words = ARGUMENTS.map(|(word, _)| word);
        let hint = if let Some(meant) = nearest(&word, &words) {
            self.seen.extend(words.into_iter().find(|word| *word == meant).map(|word| (word, false)));
            format!("did you mean `{meant}`?")
        } else {
            self.unclear = true;
            format!("the arguments are {}", list(&words))
        };
        Error::new(name.span(), format!("there is no argument `{word}`: {hint}"))
    }

    /// Steps over what cannot be read, up to the next argument or the comma before it.
    fn skip(&mut self, input: ParseStream<'_>) -> Result<()> {
        while !input.is_empty() && !begins(input) && !ends(&input.fork()) {
            self.mention(input.parse::<TokenTree>()?.into());
        }
        Ok(())
    }

    /// Notes the arguments that stand in tokens of which nothing else is understood.
    fn mention(&mut self, tokens: TokenStream) {
        for tree in tokens {
            if let TokenTree::Ident(word) = tree {
                self.seen.extend(known(&word).map(|(word, _)| (word, false)));
            }
        }
    }

    fn report_missing(&mut self) {
        let is_seen = |word: &str| self.seen.iter().any(|(seen, _)| *seen == word);
        let missing: Vec<_> = REQUIRED.into_iter().filter(|word| !is_seen(word)).collect();
        if missing.is_empty() || self.unclear {
            return;
        }
        let words = list(&missing).replace(", ", " and ");
        let sentence = format!(
            "{words} must be given, as in `#[distributed_lock(key = \"quote:{{id}}\", ttl_ms = 10_000)]`"
        );
        self.mistakes.push(Span::call_site(), sentence);
    }
}

fn known(name: &Ident) -> Option<(&'static str, &'static str)> {
    let word = name.unraw().to_string();
    ARGUMENTS.into_iter().find(|(known, _)| *known == word)
}

/// The required argument that has such a value: it may stand under a wrong name.
fn likely(value: &Expr) -> Option<(&'static str, bool)> {
    let word = match value {
        Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)) => "key",
        Expr::Lit(literal) if matches!(literal.lit, Lit::Int(_)) => "ttl_ms",
        Expr::Macro(_) => "key",
        Expr::Path(path) if is_constant(&path.path) => "ttl_ms",
        _ => return None,
    };
    Some((word, false))
}

fn is_constant(path: &Path) -> bool {
    path.segments.last().is_some_and(|last| last.ident.to_string().starts_with(char::is_uppercase))
}

/// Whether an argument of a known name follows, with its `=`.
fn begins(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    ahead.call(Ident::parse_any).is_ok_and(|name| known(&name).is_some()) && ahead.peek(Token![=])
}

/// Whether a comma follows that ends an argument: at the end, or before what looks like the next one.
fn ends(ahead: ParseStream<'_>) -> bool {
    ahead.parse::<Token![,]>().is_ok()
        && (ahead.is_empty()
            || ahead.call(Ident::parse_any).is_ok_and(|name| known(&name).is_some() || ahead.peek(Token![=])))
}

/// The value without the invisible groups that `macro_rules!` puts around what it was given.
fn ungrouped(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}
