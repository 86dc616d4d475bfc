//! The arguments as written. Rules that need only one argument stand here.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, Expr, Path, Result, Token};

use crate::diag::{Mistakes, list, nearest};
use crate::key::KeyTemplate;
use crate::policy::{
    Answer, Contention, Millis, Policy, Switch, contention, on_error, positive, renewal, switch,
};
use crate::text::Text;

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

/// Most tokens of an attribute, and deepest nesting of their brackets.
const LONGEST: usize = 400;
const DEEPEST: usize = 32;

/// The arguments of one attribute. `None` also stands for "written, but wrong": then a mistake is on record.
pub(crate) struct Args {
    pub(crate) key: Option<KeyTemplate>,
    pub(crate) ttl: Option<Millis>,
    pub(crate) policy: Policy,
    pub(crate) on_error: Option<Answer>,
    pub(crate) lease: Option<Ident>,
    pub(crate) manager: Option<Expr>,
    pub(crate) name: Option<Text>,
    pub(crate) runtime: TokenStream,
}

impl Args {
    /// Reads everything that can be read; what cannot becomes a mistake.
    pub(crate) fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut args = Self {
            key: None,
            ttl: None,
            policy: Policy {
                contention: Contention::Fail,
                renew: None,
                min_hold: None,
                switches: Vec::new(),
            },
            on_error: None,
            lease: None,
            manager: None,
            name: None,
            runtime: quote_spanned!(Span::mixed_site()=> ::lockrt),
        };
        if is_oversized(tokens.clone()) {
            mistakes.push(
                Span::call_site(),
                "this attribute is too long: move the expression in it into a function",
            );
            return args;
        }
        let mut seen = Vec::new();
        let read_all = |input: ParseStream<'_>| -> Result<()> {
            while !input.is_empty() {
                if let Err(error) = args.read_one(input, &mut seen, mistakes) {
                    mistakes.add(error);
                    skip_to_comma(input)?;
                }
                end_of_argument(input, mistakes)?;
            }
            Ok(())
        };
        if let Err(error) = read_all.parse2(tokens) {
            mistakes.add(error);
        }
        report_missing(&seen, mistakes);
        args
    }

    fn read_one(
        &mut self,
        input: ParseStream<'_>,
        seen: &mut Vec<String>,
        mistakes: &mut Mistakes,
    ) -> Result<()> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            seen.push(UNNAMED.to_owned());
            Error::new(error.span(), "an argument is written `name = value`, e.g. `ttl_ms = 10_000`")
        })?;
        let word = name.unraw().to_string();
        let Some((_, usage)) = ARGUMENTS.iter().find(|(known, _)| *known == word) else {
            return Err(unknown_argument(input, &name, seen));
        };
        let twice = seen.contains(&word);
        seen.push(word.clone());
        if !input.peek(Token![=]) {
            return Err(Error::new(name.span(), format!("`{word}` needs a value: write {usage}")));
        }
        let equals: Token![=] = input.parse()?;
        let value = input.parse::<Expr>().map_err(|error| {
            let at = if input.is_empty() || input.peek(Token![,]) { equals.span } else { error.span() };
            Error::new(at, format!("this is no value for `{word}`: write {usage}"))
        })?;
        if twice {
            return Err(Error::new(name.span(), format!("`{word}` stands here twice: keep one")));
        }
        self.set(&word, ungrouped(value), usage, mistakes)
    }

    fn set(&mut self, word: &str, value: Expr, usage: &str, mistakes: &mut Mistakes) -> Result<()> {
        match word {
            "key" => self.key = KeyTemplate::read(&Text::read(&value, "key")?, mistakes),
            "ttl_ms" => {
                let because = "a lease of 0 ms ends before it begins";
                self.ttl = Some(positive("ttl_ms", "10_000", &value, because)?);
            }
            "min_hold_ms" => {
                let because = "leave it out to release the key at once";
                self.policy.min_hold = Some(positive("min_hold_ms", "1_000", &value, because)?);
            }
            "on_contention" => self.policy.contention = contention(&value)?,
            "on_error" => self.on_error = Some(on_error(&value)?),
            "renew" => self.policy.renew = renewal(&value)?,
            "lease" => self.lease = Some(identifier(&value)?),
            "manager" => self.manager = Some(value),
            "name" => self.name = Some(label(&value)?),
            "crate" => self.runtime = runtime_path(&value)?.into_token_stream(),
            _ => self.set_switch(word, &value, usage)?,
        }
        Ok(())
    }

    fn set_switch(&mut self, word: &str, value: &Expr, usage: &str) -> Result<()> {
        let (usual, other, meaning) = match word {
            "on_lost" => ("cancel", "report", Switch::ReportLoss),
            "on_cancel" => ("release", "hold", Switch::HoldOnCancel),
            "release" => ("awaited", "started", Switch::StartRelease),
            // Not to require it is not to write it.
            _ => ("", "required", Switch::RequireFencing),
        };
        if switch(value, word, usual, other, usage)? {
            self.policy.switches.push(meaning);
        }
        Ok(())
    }
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

/// Steps over the comma; a missing one is a mistake of its own and ends nothing.
fn end_of_argument(input: ParseStream<'_>, mistakes: &mut Mistakes) -> Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    if input.peek(Token![,]) {
        return input.parse::<Token![,]>().map(drop);
    }
    mistakes.push(input.span(), "arguments are separated by commas: write `,` before this");
    if input.peek(Ident::peek_any) { Ok(()) } else { skip_to_comma(input) }
}

fn skip_to_comma(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn unknown_argument(input: ParseStream<'_>, name: &Ident, seen: &mut Vec<String>) -> Error {
    // The value may hold commas, as closures do; if it is an expression, it is skipped as one.
    if input.peek(Token![=]) && input.parse::<Token![=]>().is_ok() {
        let ahead = input.fork();
        if ahead.parse::<Expr>().is_ok() {
            let _ = input.parse::<Expr>();
        }
    }
    let word = name.unraw().to_string();
    let known = ARGUMENTS.map(|(known, _)| known);
    let hint = nearest(&word, &known).map_or_else(
        || format!("the arguments are {}", list(&known)),
        |meant| {
            seen.push(meant.to_owned());
            format!("did you mean `{meant}`?")
        },
    );
    Error::new(name.span(), format!("there is no argument `{word}`: {hint}"))
}

/// What is seen of an argument without a name. It may be any of them, so that none is known to be missing.
const UNNAMED: &str = "";

fn report_missing(seen: &[String], mistakes: &mut Mistakes) {
    if seen.iter().any(|s| s == UNNAMED) {
        return;
    }
    let missing: Vec<_> =
        ["key", "ttl_ms"].into_iter().filter(|word| !seen.iter().any(|s| s == word)).collect();
    if !missing.is_empty() {
        let words = list(&missing).replace(", ", " and ");
        let sentence = format!(
            "{words} must be given, as in `#[distributed_lock(key = \"quote:{{id}}\", ttl_ms = 10_000)]`"
        );
        mistakes.push(Span::call_site(), sentence);
    }
}

/// The value without the invisible groups that `macro_rules!` puts around what it was given.
fn ungrouped(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

fn identifier(value: &Expr) -> Result<Ident> {
    let sentence =
        "`lease` is the name by which the body calls its lease: write `lease = held`, without quotes";
    match value {
        Expr::Path(path) if path.qself.is_none() => match path.path.get_ident() {
            Some(ident) if ident != "self" && ident != "Self" && ident != "crate" && ident != "super" => {
                Ok(ident.clone())
            }
            _ => Err(Error::new_spanned(value, sentence)),
        },
        _ => Err(Error::new_spanned(value, sentence)),
    }
}

fn label(value: &Expr) -> Result<Text> {
    let text = Text::read(value, "name")?;
    if text.value.trim().is_empty() {
        return Err(Error::new(
            text.span,
            "`name` is empty: leave it out, then the lock is called after the function",
        ));
    }
    Ok(text)
}

fn runtime_path(value: &Expr) -> Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
        _ => Err(Error::new_spanned(
            value,
            "`crate` is the path of the runtime crate: write `crate = ::lockrt`, without quotes",
        )),
    }
}
