//! The expansion. It cannot fail: all questions were asked before.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::function::{Capture, Kind};
use crate::key::Segment;
use crate::model::LockedFn;
use crate::placeholder::{Form, Value};
use crate::policy::{Answer, Contention, Switch};
use crate::scope::with_receiver;
use crate::site::{checks, site};

/// Like `quote!`, but our names are hidden from the user's code and theirs from ours. Names of items are not: a route
/// macro may have made a `struct key`, so ours begin with `__`.
macro_rules! hidden {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site()=> $($tokens)*) };
}

/// The function with the lock around its body.
pub(crate) fn tokens(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let checks = checks(locked);
    let key = key(locked);
    let site = site(locked);
    let (bind_manager, manager) = match &locked.manager {
        Some(expr) => {
            let at = Span::mixed_site().located_at(expr.span());
            let callee = placed(private.clone(), expr.span());
            let expr = users(locked, expr);
            let call = quote_spanned!(at=> #callee::manager(#expr));
            (Some(hidden!(let __manager = #call;)), hidden!(#private::Some(&__manager)))
        }
        None => (None, hidden!(#private::None)),
    };
    let held = held(locked);
    let contended = contended(locked);
    let settled = settled(locked);
    locked.function.with(&hidden! {
        #checks
        #key
        #bind_manager
        let __site = #site;
        let __settled = match #private::enter(__site, #manager, __key).await {
            #private::Ok(__guard) => #held
            #contended
        };
        #settled
    })
}

/// `<crate>::private`, the only path the expansion relies on.
pub(crate) fn private(locked: &LockedFn) -> TokenStream {
    let runtime = &locked.runtime;
    hidden!(#runtime::private)
}

/// An expression of the user's.
fn users(locked: &LockedFn, expr: &Expr) -> TokenStream {
    match &locked.receiver {
        Some(receiver) if receiver != "self" => with_receiver(expr.to_token_stream(), receiver),
        _ => expr.to_token_stream(),
    }
}

fn braces(span: Span, tokens: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, tokens);
    group.set_span(span);
    group
}

/// The tokens with the given place in the source, each with its own scope: a diagnostic that joins them stays small.
pub(crate) fn placed(tokens: TokenStream, span: Span) -> TokenStream {
    let place = |mut tree: TokenTree| {
        if let TokenTree::Group(group) = &tree {
            tree = TokenTree::Group(Group::new(group.delimiter(), placed(group.stream(), span)));
        }
        tree.set_span(tree.span().located_at(span));
        tree
    };
    tokens.into_iter().map(place).collect()
}

/// The key is made before the arguments move into the body.
fn key(locked: &LockedFn) -> TokenStream {
    let mut format = String::new();
    let mut parts = Vec::new();
    for segment in &locked.key.segments {
        match segment {
            Segment::Text(text) => format.push_str(text),
            Segment::Value(value) => {
                format.push_str("{}");
                parts.push(part(locked, value));
            }
        }
    }
    let private = private(locked);
    let mut format = Literal::string(&format);
    format.set_span(locked.key.span);
    let allow = allow_underscore(locked.captures.iter().any(|capture| is_unused(&capture.name)));
    hidden!(#allow let __key = #private::key(#private::format_args!(#format #(, #parts)*));)
}

/// The call has the span of the key, and a plain argument its own: a wrong type is underlined at the argument.
fn part(locked: &LockedFn, value: &Value) -> TokenStream {
    let at = locked.key.span;
    let hidden_at = Span::mixed_site().located_at(at);
    let expr = &value.expr;
    let (reference, expr) = match expr {
        Expr::Path(path) => {
            let own = path.path.segments.first().map_or(at, |first| first.ident.span());
            (quote_spanned!(own=> &), quote!(#expr))
        }
        Expr::Field(_) | Expr::Call(_) | Expr::MethodCall(_) | Expr::Macro(_) | Expr::Index(_) => {
            (quote_spanned!(hidden_at=> &), quote!(#expr))
        }
        _ => (quote_spanned!(hidden_at=> &), quote_spanned!(hidden_at=> (#expr))),
    };
    let function = match value.form {
        Form::Part => "part",
        Form::Display => "shown",
        Form::Hash => "hashed",
    };
    let function = Ident::new(function, at);
    let callee = placed(private(locked), at);
    quote_spanned!(at=> #callee::#function(#reference #expr))
}

/// Our own scope at the place of the return type, where what is wrong with the value is best shown.
fn at_output(locked: &LockedFn) -> Span {
    Span::mixed_site().located_at(locked.output.named.span())
}

/// The arm that runs the body under the lock.
fn held(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let (guard, bind_guard, bind_lease) = lease(locked);
    let body = body(locked, &bind_lease);
    // A started release is no point where the value, which need not be `Send`, would be waited on.
    let at = at_output(locked);
    // As if the user had written them: a value that cannot be kept while the release is awaited is underlined alone.
    let theirs = locked.output.named.span();
    let (ended, wait) = (Ident::new("__ended", theirs), Ident::new("await", theirs));
    let leave = if locked.policy.has(Switch::StartRelease) {
        quote_spanned!(at=> #private::leave_started(#guard, #ended, __failed))
    } else {
        quote_spanned!(at=> #private::leave(#guard, #ended, __failed).#wait)
    };
    let kept = kept(locked);
    hidden! {{
        #bind_guard
        #kept
        let #ended = #private::hold(#guard, async move #body).await;
        let __failed = {
            #[allow(unused_imports)]
            use #private::Opaque as _;
            #private::Probe(&#ended).failed()
        };
        #leave
    }}
}

/// Where the future is said to be `Send`, so is what it keeps while it awaits the release; asked here, the answer is ours.
fn kept(locked: &LockedFn) -> Option<TokenStream> {
    let output = &locked.output.named;
    let is_named = !output.clone().into_iter().any(|tree| is_hole(&tree));
    let private = placed(private(locked), locked.output.named.span());
    (locked.output.must_be_send && is_named && !locked.policy.has(Switch::StartRelease))
        .then(|| quote_spanned!(at_output(locked)=> #private::kept::<#output>();))
}

/// `_`, which stands for a type that cannot be named, anywhere in a type.
fn is_hole(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Ident(word) => word == "_",
        TokenTree::Group(group) => group.stream().into_iter().any(|tree| is_hole(&tree)),
        _ => false,
    }
}

/// With `lease`, the guard has the user's own name for it, so that a lease that outlives its lock is underlined there.
fn lease(locked: &LockedFn) -> (TokenStream, TokenStream, TokenStream) {
    let Some(lease) = &locked.lease else {
        return (hidden!(&__guard), TokenStream::new(), TokenStream::new());
    };
    let runtime = placed(locked.runtime.clone(), lease.span());
    let at = Span::mixed_site().located_at(lease.span());
    let bind_guard = quote_spanned! {at=>
        let #lease = __guard;
        let __lease = #lease.lease();
    };
    (quote_spanned!(at=> &#lease), bind_guard, hidden!(let #lease: &#runtime::Lease = __lease;))
}

/// The user's body, untouched, behind what makes it behave as in a plain function.
fn body(locked: &LockedFn, bind_lease: &TokenStream) -> Group {
    let body = &locked.function.body;
    let output = &locked.output.named;
    // Captured values are dropped in the order of their capture: reversed, that is the order of a plain function.
    let captures = locked.captures.iter().rev().map(|Capture { cfgs, name }| {
        let allow = allow_underscore(is_unused(name));
        hidden!(#(#cfgs)* #allow let _ = &#name;)
    });
    let receiver = locked.receiver.as_ref().map(|receiver| {
        let allow = allow_underscore(is_unused(receiver));
        hidden!(#allow let _ = &#receiver;)
    });
    let tokens = hidden! {
        #bind_lease
        #[allow(unreachable_code, clippy::all, clippy::pedantic, clippy::nursery)]
        if false {
            let __never: #output = loop {};
            return __never;
        }
        #(#captures)*
        #receiver
        #[allow(unused_braces)]
        #body
    };
    braces(body.span(), tokens)
}

/// The arms of a lock that was not granted.
fn contended(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let output = &locked.output.named;
    let (busy, value) = match &locked.policy.contention {
        Contention::Fail | Contention::Wait(_) | Contention::WaitForever => {
            return hidden!(#private::Err(__refused) => #private::Err(__refused),);
        }
        Contention::Skip => (hidden!(_), hidden!(#private::skip::<#output>())),
        Contention::SkipWith(value) => {
            let value = users(locked, value);
            (hidden!(_), typed(output, &value))
        }
        Contention::SkipSeeing(answer) => (hidden!(__busy), answered(locked, answer, &hidden!(__busy))),
    };
    hidden! {
        #private::Err(__refused) => match #private::busy(__refused) {
            #private::Ok(#busy) => #private::Ok(#value),
            #private::Err(__refused) => #private::Err(__refused),
        },
    }
}

/// With its type named, a wrong value is underlined alone, and not the whole `match`.
fn typed(output: &TokenStream, value: &TokenStream) -> TokenStream {
    hidden! {{
        #[allow(unreachable_code, clippy::diverging_sub_expression)]
        let __value: #output = #value;
        __value
    }}
}

fn answered(locked: &LockedFn, answer: &Answer, refusal: &TokenStream) -> TokenStream {
    let Answer { refusal: name, value } = answer;
    let value = users(locked, value);
    let value = match locked.output.kind {
        Kind::Never => hidden!({ #value }),
        _ => typed(&locked.output.named, &value),
    };
    hidden! {{
        let #name = #refusal;
        #value
    }}
}

/// The value of the call: the body's, or what stands for the refusal.
fn settled(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let output = &locked.output.named;
    let at = at_output(locked);
    // As if the user had written it, so that a value which cannot be returned is underlined alone.
    let value = Ident::new("__value", locked.output.named.span());
    let taken = match locked.output.kind {
        Kind::Never => quote_spanned!(at=> match #value {}),
        _ => value.to_token_stream(),
    };
    let refused = match (&locked.on_error, locked.output.kind, &locked.policy.contention) {
        (Some(answer), ..) => answered(locked, answer, &hidden!(__refused)),
        (None, Kind::Hidden { .. }, _) => return quote_spanned!(at=> #private::Locked::from(__settled)),
        (None, _, Contention::Fail | Contention::Wait(_) | Contention::WaitForever) => {
            hidden!(#private::fail::<#output>(__refused))
        }
        (None, ..) => hidden!(#private::unanswered::<#output>(__refused)),
    };
    quote_spanned! {at=>
        match __settled {
            #private::Ok(#value) => #taken,
            #private::Err(__refused) => #refused,
        }
    }
}

fn is_unused(name: &Ident) -> bool {
    name.unraw().to_string().starts_with('_')
}

fn allow_underscore(needed: bool) -> Option<TokenStream> {
    needed.then(|| hidden!(#[allow(clippy::used_underscore_binding)]))
}
