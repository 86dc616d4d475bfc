//! The constant half of an expansion: name and policy of the lock.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::expand::{placed, private};
use crate::model::{Checked, LockedFn};
use crate::policy::{Contention, Millis, Switch};

/// Like `quote!`, but our names are hidden from the user's code and theirs from ours.
macro_rules! hidden {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site()=> $($tokens)*) };
}

/// `const { &Site::new(name, policy) }`
pub(crate) fn site(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let (name, policy) = (name(locked), policy(locked));
    let check = check(locked, Checked::InUse).map(|check| hidden!(#check;));
    hidden!(const { #check &#private::Site::new(#name, #policy) })
}

/// `const _: () = check(times);`
pub(crate) fn checks(locked: &LockedFn) -> Option<TokenStream> {
    let allow = hidden!(#[allow(clippy::pedantic, clippy::unnecessary_cast)]);
    check(locked, Checked::Always).map(|check| hidden!(#allow const _: () = #check;))
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

/// The call that looks at the times, if this is the place for it.
fn check(locked: &LockedFn, place: Checked) -> Option<TokenStream> {
    if locked.constants != Some(place) {
        return None;
    }
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
    let call = hidden!(#private::check(#ttl, #cap, #wait, #min_hold));
    let path = std::iter::once(&locked.ttl).chain(policy.times()).find_map(Millis::constant)?;
    Some(placed(call, path.span()))
}
