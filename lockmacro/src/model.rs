//! The function and its lock, checked together. Rules that need more than one argument stand here.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{Attribute, Error, Expr, ExprPath, GenericParam, Signature};

use crate::args::Args;
use crate::diag::Mistakes;
use crate::function::{Capture, Function, Kind, Output};
use crate::key::KeyTemplate;
use crate::policy::{Answer, Millis, Policy};
use crate::scope::{Roots, Scope};
use crate::statement;
use crate::text::Text;

/// A lease shorter than this leaves no room for three renewals over a network.
const SHORTEST_RENEWED_MS: u64 = 30;

/// A function with its lock: everything the expansion needs, and nothing that can still be wrong.
pub(crate) struct LockedFn {
    pub(crate) function: Function,
    pub(crate) captures: Vec<Capture>,
    /// `self`, as the body calls it.
    pub(crate) receiver: Option<Ident>,
    pub(crate) output: Output,
    pub(crate) key: KeyTemplate,
    pub(crate) ttl: Millis,
    pub(crate) policy: Policy,
    pub(crate) on_error: Option<Answer>,
    pub(crate) lease: Option<Ident>,
    pub(crate) manager: Option<Expr>,
    pub(crate) name: Option<Text>,
    pub(crate) runtime: TokenStream,
    /// Where the times that are constants can be checked, if any is.
    pub(crate) constants: Option<Checked>,
}

/// Where constants are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    /// By an item inside the function, which every run of the compiler evaluates.
    Always,
    /// With the policy, when the function is used: items know neither `Self` nor type parameters.
    InUse,
}

impl LockedFn {
    /// The checked function, or the item to put beside the mistakes.
    pub(crate) fn check(
        args: Args,
        item: TokenStream,
        mistakes: &mut Mistakes,
    ) -> std::result::Result<Self, TokenStream> {
        if let Some(statement) = statement::linted(&item) {
            return Err(statement);
        }
        let Some(function) = mistakes.keep(syn::parse2::<Function>(item.clone())) else {
            return Err(possible(item));
        };
        let fallback = function.unlocked(&args);
        Self::join(args, function, mistakes).ok_or(fallback)
    }

    fn join(mut args: Args, mut function: Function, mistakes: &mut Mistakes) -> Option<Self> {
        let names: Vec<Ident> = function.captures().into_iter().map(|capture| capture.name).collect();
        let receiver = function.receiver();
        if let Some(key) = &mut args.key {
            check_twice(key, &function.attrs, mistakes);
            key.resolve(&Scope { names: &names, receiver: receiver.clone() }, mistakes);
        }
        check_constants(args.ttl.iter().chain(args.policy.times()), &names, mistakes);
        check_times(args.ttl.as_ref(), &args.policy, mistakes);
        if let Some(lease) = args.lease.as_ref().filter(|lease| names.contains(lease)) {
            let sentence =
                format!("`lease = {lease}` would hide the argument `{lease}`: choose another name");
            mistakes.push(lease.span(), sentence);
        }
        if let Some(answer) = &args.on_error {
            check_answer(answer, &names, mistakes);
        }
        let output = function.output();
        check_output(&output, &function.sig, &args, mistakes);
        if mistakes.len() > 0 {
            return None;
        }
        function.name_ignored();
        function.lift_inner_attributes();
        let times: Vec<&Millis> = args.ttl.iter().chain(args.policy.times()).collect();
        let constants = checked(&times, &function.sig);
        Some(Self {
            captures: function.captures(),
            constants,
            receiver,
            function,
            output,
            key: args.key?,
            ttl: args.ttl?,
            policy: args.policy,
            on_error: args.on_error,
            lease: args.lease,
            manager: args.manager,
            name: args.name,
            runtime: args.runtime,
        })
    }
}

/// The item without what the compiler would refuse as well: a `const` before `async`.
fn possible(item: TokenStream) -> TokenStream {
    let is = |tree: &TokenTree, keyword: &str| matches!(tree, TokenTree::Ident(word) if word == keyword);
    let is_async = item.clone().into_iter().any(|tree| is(&tree, "async"));
    item.into_iter().filter(|tree| !(is_async && is(tree, "const"))).collect()
}

/// Not every type has room for a refusal that nobody answers.
fn check_output(output: &Output, sig: &Signature, args: &Args, mistakes: &mut Mistakes) {
    if args.on_error.is_some() {
        return;
    }
    let sentence = match output.kind {
        Kind::Never => {
            "a function that never returns has no room for a refusal: write `on_error = |error| panic!(\"{error}\")`, \
             or `-> Result<Infallible, E>`"
        }
        Kind::Hidden { web: false } => {
            "a refusal has no place in this hidden type: write `on_error = |error| value`, or a type such as `Result<_, E>`"
        }
        _ => return,
    };
    mistakes.add(Error::new_spanned(&sig.output, sentence));
}

/// The body may have consumed its arguments by the time that its lease is lost.
fn check_answer(answer: &Answer, names: &[Ident], mistakes: &mut Mistakes) {
    let hidden = |name: &Ident| {
        // A pattern such as `LockError::Lost { .. }` binds names of its own.
        crate::function::Bound::of(&answer.refusal).contains(name)
    };
    let roots = Roots::of(&answer.value);
    for root in roots.iter().filter(|root| (names.contains(root) || *root == "self") && !hidden(root)) {
        let sentence = format!(
            "`on_error` cannot use `{root}`, which moves into the body: use the error and constants, or answer \
             contention alone by `on_contention = skip(value)`"
        );
        mistakes.push(root.span(), sentence);
    }
}

/// A policy is made at compile time, so no time in it may be an argument.
fn check_constants<'a>(times: impl Iterator<Item = &'a Millis>, names: &[Ident], mistakes: &mut Mistakes) {
    for path in times.filter_map(Millis::constant) {
        if path.path.get_ident().is_some_and(|word| names.contains(word)) {
            let sentence = "a time of a lock is a constant, not an argument: write a number or a `const`";
            mistakes.add(Error::new_spanned(path, sentence));
        }
    }
}

/// The times against each other, as far as they are literals.
fn check_times(ttl: Option<&Millis>, policy: &Policy, mistakes: &mut Mistakes) {
    let Some(Millis::Literal(ttl, at)) = ttl else {
        return;
    };
    if *ttl < SHORTEST_RENEWED_MS && policy.renew.is_some() {
        let sentence = format!(
            "a lease of {ttl} ms is too short to be renewed: write at least {SHORTEST_RENEWED_MS}, or `renew = off`"
        );
        mistakes.push(*at, sentence);
    }
    if let Some(Millis::Literal(max, at)) = &policy.renew
        && max < ttl
    {
        let sentence = format!(
            "`max_ms` is less than `ttl_ms`, so nothing would be renewed: write at least {ttl}, or `renew = off`"
        );
        mistakes.push(*at, sentence);
    }
    if let Some(Millis::Literal(min_hold, at)) = &policy.min_hold
        && min_hold >= ttl
    {
        let sentence = format!(
            "the key would have to outlive its lease of {ttl} ms: write a smaller `min_hold_ms`, or a longer `ttl_ms`"
        );
        mistakes.push(*at, sentence);
    }
}

/// A second lock on the same key would wait for the first one, which is its own caller.
fn check_twice(key: &KeyTemplate, attrs: &[Attribute], mistakes: &mut Mistakes) {
    for attr in attrs
        .iter()
        .filter(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "distributed_lock"))
    {
        let Ok(list) = attr.meta.require_list() else {
            continue;
        };
        let other = Args::read(list.tokens.clone(), &mut Mistakes::default());
        if other.key.is_some_and(|other| other.is_same(key)) {
            mistakes.push(
                key.span,
                "this function already takes a lock with the same key: remove one of the two",
            );
        }
    }
}

/// Those of an `impl` are out of sight, so that any path through a type is checked in use.
fn checked(times: &[&Millis], sig: &Signature) -> Option<Checked> {
    let paths: Vec<&ExprPath> = times.iter().filter_map(|millis| millis.constant()).collect();
    let is_parameter = |word: &Ident| {
        let mut params = sig.generics.params.iter();
        params.any(|param| matches!(param, GenericParam::Const(param) if param.ident == *word))
    };
    let is_type = |word: &Ident| word.to_string().starts_with(char::is_uppercase);
    let plain = |path: &&ExprPath| {
        path.qself.is_none()
            && path.path.segments.iter().rev().skip(1).all(|segment| !is_type(&segment.ident))
            && !path.path.get_ident().is_some_and(is_parameter)
    };
    let checked = if paths.iter().all(plain) { Checked::Always } else { Checked::InUse };
    (!paths.is_empty()).then_some(checked)
}
