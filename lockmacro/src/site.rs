//! The constant half of an expansion: name and policy of the lock.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::expand::{placed, private};
use crate::model::LockedFn;
use crate::policy::{Contention, Millis, Switch};

/// Like `quote!`, but our names are hidden from the user's code and theirs from ours.
macro_rules! hidden {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site()=> $($tokens)*) };
}

/// `Site::new(name, policy)`
pub(crate) fn site(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let (name, policy) = (name(locked), policy(locked));
    hidden!(#private::Site::new(#name, #policy))
}

fn policy(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    // A call at the place of its constant: if that has a wrong type, it is underlined alone.
    let call = |function: TokenStream, millis: &Millis| {
        let at = Span::mixed_site().located_at(millis.span());
        let (callee, number) = (placed(hidden!(#private::#function), millis.span()), number(millis));
        quote_spanned!(at=> #callee(#number))
    };
    let mut tokens = call(hidden!(policy), &locked.ttl);
    let mut set = |method: TokenStream, millis: &Millis| {
        let millis = call(hidden!(ms), millis);
        tokens.extend(hidden!(.#method(#millis)));
    };
    if let Contention::Wait(timeout) = &locked.policy.contention {
        set(hidden!(wait), timeout);
    }
    if let Some(max) = &locked.policy.renew {
        set(hidden!(renew), max);
    }
    if let Some(min_hold) = &locked.policy.min_hold {
        set(hidden!(min_hold), min_hold);
    }
    if let Contention::WaitForever = locked.policy.contention {
        tokens.extend(hidden!(.wait_forever()));
    }
    for switch in &locked.policy.switches {
        tokens.extend(match switch {
            Switch::ReportLoss => hidden!(.on_lost(#private::OnLost::Report)),
            Switch::HoldOnCancel => hidden!(.on_cancel(#private::OnCancel::Hold)),
            Switch::StartRelease => hidden!(.release(#private::ReleaseMode::Started)),
            Switch::RequireFencing => hidden!(.require_fencing()),
        });
    }
    tokens
}

fn name(locked: &LockedFn) -> TokenStream {
    if let Some(text) = &locked.name {
        let mut literal = Literal::string(&text.value);
        literal.set_span(text.span);
        return literal.into_token_stream();
    }
    let private = private(locked);
    let function = locked.function.sig.ident.unraw().to_string();
    hidden!(#private::concat!(#private::module_path!(), "::", #function))
}

fn number(millis: &Millis) -> TokenStream {
    match millis {
        Millis::Constant(path) => path.to_token_stream(),
        Millis::Literal(value, span) => {
            let mut literal = Literal::u64_suffixed(*value);
            literal.set_span(*span);
            literal.into_token_stream()
        }
    }
}

/// An item, because `cargo check` evaluates items and leaves inline constants of uncalled functions alone.
pub(crate) fn check(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    // A constant of a wrong type is a mistake once, in the policy.
    let cast = |millis: &Millis| {
        let number = number(millis);
        millis.constant().map_or(number.clone(), |_| hidden!(#number as #private::Number))
    };
    let ttl = cast(&locked.ttl);
    let maybe = |time: Option<&Millis>| {
        time.map(cast).map_or_else(|| hidden!(#private::None), |time| hidden!(#private::Some(#time)))
    };
    let policy = &locked.policy;
    let (cap, wait) = (maybe(policy.renew.as_ref()), maybe(policy.contention.timeout()));
    let min_hold = maybe(policy.min_hold.as_ref());
    let tokens = hidden!(#[allow(clippy::pedantic, clippy::unnecessary_cast)] const _: () = #private::check(#ttl, #cap, #wait, #min_hold););
    let constant = std::iter::once(&locked.ttl).chain(policy.times()).find_map(Millis::constant);
    match constant {
        Some(path) => placed(tokens, path.span()),
        None => tokens,
    }
}
