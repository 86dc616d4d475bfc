//! The expansion. It cannot fail: all questions were asked before.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::Expr;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;

use crate::function::Capture;
use crate::key::Segment;
use crate::model::LockedFn;
use crate::placeholder::Value;
use crate::policy::{Contention, Millis};

/// Like `quote!`, but our names are hidden from the user's code and theirs from ours.
macro_rules! hidden {
    ($($tokens:tt)*) => { quote_spanned!(Span::mixed_site()=> $($tokens)*) };
}

/// The function with the lock around its body.
pub(crate) fn tokens(locked: &LockedFn) -> TokenStream {
    let LockedFn { attrs, vis, sig, body, .. } = locked;
    let private = private(locked);
    let check = locked.constants.then(|| check(locked));
    let key = key(locked);
    let site = site(locked);
    let (bind_manager, manager) = match &locked.manager {
        Some(expr) => {
            (Some(hidden!(let manager = #private::manager(#expr);)), hidden!(#private::Some(&manager)))
        }
        None => (None, hidden!(#private::None)),
    };
    let held = held(locked);
    let refused = refused(locked);
    let block = braces(
        body.span(),
        hidden! {
            #check
            #key
            #bind_manager
            let site = const { &#site };
            match #private::enter(site, #manager, key).await {
                #private::Ok(guard) => #held
                #refused
            }
        },
    );
    quote!(#(#attrs)* #vis #sig #block)
}

/// `<crate>::private`, the only path the expansion relies on.
fn private(locked: &LockedFn) -> TokenStream {
    let runtime = &locked.runtime;
    hidden!(#runtime::private)
}

fn braces(span: Span, tokens: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, tokens);
    group.set_span(span);
    group
}

/// The tokens with the given place in the source, each with its own scope: a diagnostic that joins them stays small.
fn placed(tokens: TokenStream, span: Span) -> TokenStream {
    let place = |mut tree: TokenTree| {
        if let TokenTree::Group(group) = &tree {
            tree = TokenTree::Group(Group::new(group.delimiter(), placed(group.stream(), span)));
        }
        tree.set_span(tree.span().located_at(span));
        tree
    };
    tokens.into_iter().map(place).collect()
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
fn check(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let ttl = number(&locked.ttl);
    let maybe = |time: Option<&Millis>| {
        time.map(number).map_or_else(|| hidden!(#private::None), |time| hidden!(#private::Some(#time)))
    };
    let (cap, wait) = (maybe(locked.renew.as_ref()), maybe(locked.contention.timeout()));
    let tokens = hidden!(const _: () = #private::check(#ttl, #cap, #wait););
    let times = [Some(&locked.ttl), locked.renew.as_ref(), locked.contention.timeout()];
    let constant = times.into_iter().flatten().find_map(Millis::constant);
    match constant {
        Some(path) => placed(tokens, path.span()),
        None => tokens,
    }
}

fn name(locked: &LockedFn) -> TokenStream {
    if let Some(text) = &locked.name {
        let mut literal = Literal::string(&text.value);
        literal.set_span(text.span);
        return literal.into_token_stream();
    }
    let private = private(locked);
    let function = locked.sig.ident.unraw().to_string();
    hidden!(#private::concat!(#private::module_path!(), "::", #function))
}

fn site(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let name = name(locked);
    let ttl = number(&locked.ttl);
    let wait = match &locked.contention {
        Contention::Wait(timeout) => {
            let timeout = number(timeout);
            hidden!(.wait(#private::ms(#timeout)))
        }
        Contention::WaitForever => hidden!(.wait_forever()),
        _ => TokenStream::new(),
    };
    let renew = locked.renew.as_ref().map(|max| {
        let max = number(max);
        hidden!(.renew(#private::ms(#max)))
    });
    let report = locked.report_loss.then(|| hidden!(.on_lost(#private::OnLost::Report)));
    hidden!(#private::Site::new(#name, #private::policy(#ttl) #wait #renew #report))
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
    hidden!(#allow let key = #private::key(#private::format_args!(#format #(, #parts)*));)
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
    let function = Ident::new(if value.display { "shown" } else { "part" }, at);
    let callee = placed(private(locked), at);
    quote_spanned!(at=> #callee::#function(#reference #expr))
}

/// The arm that runs the body under the lock.
fn held(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let output = &locked.output;
    let (guard, bind_guard, bind_lease) = lease(locked);
    let body = body(locked, &bind_lease);
    let lost = match locked.contention {
        Contention::Fail | Contention::Wait(_) | Contention::WaitForever => {
            hidden!(#private::fail::<#output>(lost))
        }
        Contention::Skip | Contention::SkipWith(_) => {
            hidden!(#private::unanswered::<#output>(lost))
        }
    };
    hidden! {{
        #bind_guard
        let ended = #private::hold(&#guard, async move #body).await;
        let failed = {
            use #private::Opaque as _;
            #private::Probe(&ended).failed()
        };
        match #private::leave(&#guard, ended, failed).await {
            #private::Ok(value) => value,
            #private::Err(lost) => #lost,
        }
    }}
}

/// With `lease`, the guard has the user's own name for it, so that a lease that outlives its lock is underlined there.
fn lease(locked: &LockedFn) -> (TokenStream, TokenStream, TokenStream) {
    let Some(lease) = &locked.lease else {
        return (hidden!(guard), TokenStream::new(), TokenStream::new());
    };
    let runtime = placed(locked.runtime.clone(), lease.span());
    let bind_guard = hidden! {
        let #lease = guard;
        let held_lease = #lease.lease();
    };
    (lease.to_token_stream(), bind_guard, hidden!(let #lease: &#runtime::Lease = held_lease;))
}

/// The user's body, untouched, behind what makes it behave as in a plain function.
fn body(locked: &LockedFn, bind_lease: &TokenStream) -> Group {
    let LockedFn { body, output, .. } = locked;
    // Captured values are dropped in the order of their capture: reversed, that is the order of a plain function.
    let captures = locked.captures.iter().rev().map(|Capture { cfgs, name }| {
        let allow = allow_underscore(is_unused(name));
        hidden!(#(#cfgs)* #allow let _ = &#name;)
    });
    let receiver = locked.sig.receiver().map(|receiver| {
        let this = receiver.self_token;
        hidden!(let _ = &#this;)
    });
    let inner = braces(inner_span(body), body.stream());
    let tokens = hidden! {
        #bind_lease
        #[allow(unreachable_code, clippy::all, clippy::pedantic)]
        if false {
            let never: #output = loop {};
            return never;
        }
        #(#captures)*
        #receiver
        #inner
    };
    braces(body.span(), tokens)
}

/// Where the braces of a body inside ours stand. The user's own around a single expression on one
/// line would be called superfluous; around statements they are needed, and messages point at them.
fn inner_span(body: &Group) -> Span {
    let ends_statement = |tree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == ';');
    if body.stream().into_iter().any(ends_statement) {
        body.span()
    } else {
        Span::mixed_site().located_at(body.span())
    }
}

/// The arms of a lock that was not granted.
fn refused(locked: &LockedFn) -> TokenStream {
    let private = private(locked);
    let output = &locked.output;
    let contended = match &locked.contention {
        Contention::Fail | Contention::Wait(_) | Contention::WaitForever => {
            return hidden!(#private::Err(refused) => #private::fail::<#output>(refused),);
        }
        Contention::Skip => hidden!(#private::skip::<#output>()),
        // With its type named, a wrong value is underlined alone, and not the whole `match`.
        Contention::SkipWith(value) => hidden! {{
            #[allow(unreachable_code)]
            let value: #output = #value;
            value
        }},
    };
    hidden! {
        #private::Err(refused) if refused.is_contended() => #contended,
        #private::Err(refused) => #private::unanswered::<#output>(refused),
    }
}

fn is_unused(name: &Ident) -> bool {
    name.unraw().to_string().starts_with('_')
}

fn allow_underscore(needed: bool) -> Option<TokenStream> {
    needed.then(|| hidden!(#[allow(clippy::used_underscore_binding)]))
}
