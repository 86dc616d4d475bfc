//! The values that make up a policy: times, and what happens when the lock is not free or is lost.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprCall, ExprClosure, ExprPath, Lit, LitInt, Pat, Result};

/// A number of milliseconds.
pub(crate) enum Millis {
    Literal(u64, Span),
    Constant(ExprPath),
}

impl Millis {
    pub(crate) fn constant(&self) -> Option<&ExprPath> {
        match self {
            Self::Constant(path) => Some(path),
            Self::Literal(..) => None,
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Literal(_, span) => *span,
            Self::Constant(path) => path.span(),
        }
    }
}

/// What happens when someone else holds the lock.
pub(crate) enum Contention {
    Fail,
    Skip,
    SkipWith(Box<Expr>),
    SkipSeeing(Box<Answer>),
    Wait(Millis),
    WaitForever,
}

/// `|refusal| value`, which stands in a branch and is no closure: it may move arguments and wait.
pub(crate) struct Answer {
    pub(crate) refusal: Pat,
    pub(crate) value: Expr,
}

/// An argument with two words, set to the one that is not its default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Switch {
    ReportLoss,
    HoldOnCancel,
    StartRelease,
    RequireFencing,
}

/// How the lock is taken, kept and given back, but for its time to live.
pub(crate) struct Policy {
    pub(crate) contention: Contention,
    pub(crate) renew: Option<Millis>,
    pub(crate) min_hold: Option<Millis>,
    pub(crate) switches: Vec<Switch>,
}

impl Policy {
    pub(crate) fn has(&self, switch: Switch) -> bool {
        self.switches.contains(&switch)
    }

    /// Every time but the TTL.
    pub(crate) fn times(&self) -> impl Iterator<Item = &Millis> {
        [self.renew.as_ref(), self.contention.timeout(), self.min_hold.as_ref()].into_iter().flatten()
    }
}

impl Contention {
    pub(crate) fn timeout(&self) -> Option<&Millis> {
        match self {
            Self::Wait(timeout) => Some(timeout),
            _ => None,
        }
    }
}

/// The word of a value that is one, such as `fail`.
fn word(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        _ => None,
    }
}

/// The word and the arguments of a value such as `wait(forever)`.
fn call(value: &Expr) -> Option<(String, &ExprCall)> {
    match value {
        Expr::Call(call) => word(&call.func).map(|word| (word, call)),
        _ => None,
    }
}

fn millis(name: &str, example: &str, value: &Expr) -> Result<Millis> {
    let sentence = || {
        let text = format!(
            "`{name}` is a whole number of milliseconds without quotes or unit, or a `const`: write `{name} = {example}`"
        );
        Error::new_spanned(value, text)
    };
    match value {
        Expr::Group(group) => millis(name, example, &group.expr),
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(int) => whole(int).map(|n| Millis::Literal(n, int.span())).ok_or_else(sentence),
            _ => Err(sentence()),
        },
        Expr::Path(path) if !path.path.is_ident("self") => Ok(Millis::Constant(path.clone())),
        _ => Err(sentence()),
    }
}

fn whole(int: &LitInt) -> Option<u64> {
    matches!(int.suffix(), "" | "u64").then(|| int.base10_parse().ok()).flatten()
}

pub(crate) fn positive(name: &str, example: &str, value: &Expr, because: &str) -> Result<Millis> {
    match millis(name, example, value)? {
        Millis::Literal(0, span) => Err(Error::new(span, format!("`{name}` must be at least 1: {because}"))),
        millis => Ok(millis),
    }
}

/// The shortest lease that can be told from one that has ended, and the longest that is no mistake in units: 31 days.
/// The runtime has the same bounds.
const SHORTEST_MS: u64 = 10;
const LONGEST_MS: u64 = 31 * 24 * 3_600 * 1_000;

pub(crate) fn ttl(value: &Expr) -> Result<Millis> {
    let refuse = |span, sentence: String| Err(Error::new(span, sentence));
    match millis("ttl_ms", "10_000", value)? {
        Millis::Literal(ttl, span) if ttl < SHORTEST_MS => refuse(
            span,
            format!(
                "`ttl_ms` must be at least {SHORTEST_MS}: a shorter lease is over before its answer is read"
            ),
        ),
        Millis::Literal(ttl, span) if ttl > LONGEST_MS => refuse(
            span,
            format!("`ttl_ms` must be at most {LONGEST_MS}, which is 31 days: is this in milliseconds?"),
        ),
        ttl => Ok(ttl),
    }
}

/// The `N` of `wait(timeout_ms = N)` and `auto(max_ms = N)`; `None` if the call is written otherwise.
fn named_argument<'a>(call: &'a ExprCall, name: &str) -> Option<&'a Expr> {
    match call.args.first() {
        Some(Expr::Assign(assign)) if call.args.len() == 1 && word(&assign.left)? == name => {
            Some(&assign.right)
        }
        _ => None,
    }
}

pub(crate) fn contention(value: &Expr) -> Result<Contention> {
    if let Some(word) = word(value) {
        return match word.as_str() {
            "fail" => Ok(Contention::Fail),
            "skip" => Ok(Contention::Skip),
            "wait" => Err(how_long(value)),
            _ => Err(no_reaction(value)),
        };
    }
    match call(value) {
        Some((word, call)) if word == "wait" => wait(call),
        Some((word, call)) if word == "skip" => skip_with(call),
        _ => Err(no_reaction(value)),
    }
}

fn no_reaction(value: &Expr) -> Error {
    let words = "`fail`, `skip`, `skip(value)`, `skip(|busy| value)`, `wait(timeout_ms = 2_000)` or `wait(forever)`, without quotes";
    Error::new_spanned(value, format!("`on_contention` does not know this: write {words}"))
}

fn how_long(value: impl ToTokens) -> Error {
    Error::new_spanned(value, "how long shall it wait? write `wait(timeout_ms = 2_000)` or `wait(forever)`")
}

fn wait(call: &ExprCall) -> Result<Contention> {
    if call.args.len() == 1 && call.args.first().and_then(word).as_deref() == Some("forever") {
        return Ok(Contention::WaitForever);
    }
    let timeout = named_argument(call, "timeout_ms").ok_or_else(|| how_long(call))?;
    let because = "not to wait is `on_contention = fail`";
    positive("timeout_ms", "2_000", timeout, because).map(Contention::Wait)
}

fn skip_with(call: &ExprCall) -> Result<Contention> {
    match (call.args.len(), call.args.first()) {
        (1, Some(Expr::Closure(closure))) => {
            answer(closure, "skip(|busy| value)").map(|answer| Contention::SkipSeeing(Box::new(answer)))
        }
        (1, Some(value)) => Ok(Contention::SkipWith(Box::new(value.clone()))),
        (0, _) => Err(Error::new_spanned(call, "`skip()` holds no value: write `skip`, or `skip(value)`")),
        _ => {
            Err(Error::new_spanned(&call.args, "`skip(..)` takes one value: write a tuple as `skip((a, b))`"))
        }
    }
}

pub(crate) fn renewal(value: &Expr) -> Result<Option<Millis>> {
    let capped = "a lock renewed for ever is an incident";
    match (word(value).as_deref(), call(value)) {
        (Some("off"), _) => Ok(None),
        (Some("auto"), _) => Err(Error::new_spanned(
            value,
            format!("{capped}: write the longest time as `auto(max_ms = 600_000)`"),
        )),
        (_, Some((word, call))) if word == "auto" => {
            let max = named_argument(call, "max_ms").ok_or_else(|| {
                Error::new_spanned(
                    call,
                    format!("{capped}: write the longest time as `auto(max_ms = 600_000)`"),
                )
            })?;
            positive("max_ms", "600_000", max, "not to renew is `renew = off`").map(Some)
        }
        _ => Err(Error::new_spanned(value, "`renew` is `off` or `auto(max_ms = 600_000)`, without quotes")),
    }
}

/// Which of the two words an argument has: whether it is not the default.
pub(crate) fn switch(value: &Expr, argument: &str, usual: &str, other: &str, usage: &str) -> Result<bool> {
    match word(value) {
        Some(word) if word == other => Ok(true),
        Some(word) if word == usual => Ok(false),
        _ => Err(Error::new_spanned(
            value,
            format!("`{argument}` does not know this: write {usage}, without quotes"),
        )),
    }
}

pub(crate) fn on_error(value: &Expr) -> Result<Answer> {
    match value {
        Expr::Closure(closure) => answer(closure, "on_error = |error| value"),
        _ => Err(Error::new_spanned(
            value,
            "`on_error` gives the refusal a name and says what to return: write `on_error = |error| value`",
        )),
    }
}

fn answer(closure: &ExprClosure, usage: &str) -> Result<Answer> {
    if let Some(asyncness) = &closure.asyncness {
        return Err(Error::new_spanned(
            asyncness,
            "this is no closure but a branch of the function, which may `.await` anyway: remove `async`",
        ));
    }
    match closure.inputs.first() {
        Some(refusal) if closure.inputs.len() == 1 => {
            Ok(Answer { refusal: refusal.clone(), value: (*closure.body).clone() })
        }
        _ => Err(Error::new_spanned(
            closure,
            format!("the refusal is one value, so it needs one name: write `{usage}`"),
        )),
    }
}
