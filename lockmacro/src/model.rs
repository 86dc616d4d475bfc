//! The function and its lock, checked together. Rules that need more than one argument stand here.

use proc_macro2::{Group, Ident, TokenStream};
use syn::{Attribute, Error, Expr, ExprPath, GenericParam, Signature, Visibility};

use crate::args::Args;
use crate::diag::Mistakes;
use crate::function::{Capture, Function};
use crate::key::KeyTemplate;
use crate::policy::{Contention, Millis};
use crate::scope::Scope;
use crate::text::Text;

/// A lease shorter than this leaves no room for three renewals over a network.
const SHORTEST_RENEWED_MS: u64 = 30;

/// A function with its lock: everything the expansion needs, and nothing that can still be wrong.
pub(crate) struct LockedFn {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
    pub(crate) captures: Vec<Capture>,
    /// The return type as it can be named inside the function: `impl Trait` is `_`.
    pub(crate) output: TokenStream,
    pub(crate) key: KeyTemplate,
    pub(crate) ttl: Millis,
    pub(crate) contention: Contention,
    pub(crate) renew: Option<Millis>,
    pub(crate) report_loss: bool,
    pub(crate) lease: Option<Ident>,
    pub(crate) manager: Option<Expr>,
    pub(crate) name: Option<Text>,
    pub(crate) runtime: TokenStream,
    /// Whether the constants can be checked by an item inside the function.
    pub(crate) constants: bool,
}

impl LockedFn {
    /// The checked function, or the item to put beside the mistakes.
    pub(crate) fn check(
        args: Args,
        item: TokenStream,
        mistakes: &mut Mistakes,
    ) -> std::result::Result<Self, TokenStream> {
        let Some(function) = mistakes.keep(syn::parse2::<Function>(item.clone())) else {
            return Err(item);
        };
        let fallback = function.unlocked(&args);
        Self::join(args, function, mistakes).ok_or(fallback)
    }

    fn join(args: Args, mut function: Function, mistakes: &mut Mistakes) -> Option<Self> {
        let names: Vec<Ident> = function.captures().into_iter().map(|capture| capture.name).collect();
        let receiver = function.sig.receiver().map(|receiver| receiver.self_token.span);
        let mut key = args.key;
        if let Some(key) = &mut key {
            key.resolve(&Scope { names: &names, receiver }, mistakes);
            check_twice(key, &function.attrs, mistakes);
        }
        check_constants(
            [args.ttl.as_ref(), args.renew.as_ref(), args.contention.timeout()],
            &names,
            mistakes,
        );
        check_times(args.ttl.as_ref(), args.renew.as_ref(), mistakes);
        if let Some(lease) = args.lease.as_ref().filter(|lease| names.contains(lease)) {
            let sentence =
                format!("`lease = {lease}` would hide the argument `{lease}`: choose another name");
            mistakes.push(lease.span(), sentence);
        }
        let output = mistakes.keep(function.output());
        if mistakes.len() > 0 {
            return None;
        }
        function.name_ignored();
        function.lift_inner_attributes();
        Some(Self {
            captures: function.captures(),
            constants: can_check(
                &[args.ttl.as_ref(), args.renew.as_ref(), args.contention.timeout()],
                &function.sig,
            ),
            attrs: function.attrs,
            vis: function.vis,
            sig: function.sig,
            body: function.body,
            output: output?,
            key: key?,
            ttl: args.ttl?,
            contention: args.contention,
            renew: args.renew,
            report_loss: args.report_loss,
            lease: args.lease,
            manager: args.manager,
            name: args.name,
            runtime: args.runtime,
        })
    }
}

/// A policy is made at compile time, so no time in it may be an argument.
fn check_constants(times: [Option<&Millis>; 3], names: &[Ident], mistakes: &mut Mistakes) {
    for path in times.into_iter().flatten().filter_map(Millis::constant) {
        if path.path.get_ident().is_some_and(|word| names.contains(word)) {
            let sentence = "a time of a lock is a constant, not an argument: write a number or a `const`";
            mistakes.add(Error::new_spanned(path, sentence));
        }
    }
}

/// The times against each other, as far as they are literals.
fn check_times(ttl: Option<&Millis>, renew: Option<&Millis>, mistakes: &mut Mistakes) {
    let (Some(Millis::Literal(ttl, at)), Some(renew)) = (ttl, renew) else {
        return;
    };
    if *ttl < SHORTEST_RENEWED_MS {
        let sentence = format!(
            "a lease of {ttl} ms is too short to be renewed: write at least {SHORTEST_RENEWED_MS}, or `renew = off`"
        );
        mistakes.push(*at, sentence);
    }
    if let Millis::Literal(max, at) = renew
        && max < ttl
    {
        let sentence = format!(
            "`max_ms` is less than `ttl_ms`, so nothing would be renewed: write at least {ttl}, or `renew = off`"
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
        if other.key.is_some_and(|other| other.text == key.text) {
            mistakes.push(
                key.span,
                "this function already takes a lock with the same key: remove one of the two",
            );
        }
    }
}

/// Whether an item inside the function may name the times, and has to: such an item knows neither `Self` nor type
/// parameters. Those of an `impl` are out of sight, so any path through a type is left to the inline constant.
fn can_check(times: &[Option<&Millis>], sig: &Signature) -> bool {
    let paths: Vec<&ExprPath> = times.iter().flatten().filter_map(|millis| millis.constant()).collect();
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
    !paths.is_empty() && paths.iter().all(plain)
}
