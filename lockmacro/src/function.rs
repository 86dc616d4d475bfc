//! The item as written: a function of which only the signature is parsed.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, Pat, PatIdent, Result, ReturnType, Signature, Type, TypeParamBound, Visibility,
};

use crate::args::Args;
use crate::boxed::{self, Boxed};

/// An argument that moves into the body, under its conditions.
pub(crate) struct Capture {
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) name: Ident,
}

/// An async function of which only the signature is parsed: what the body says is the compiler's business.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
    /// What `#[async_trait]` has put around the body.
    boxed: Option<Boxed>,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let start = input.span();
        let ahead = input.fork();
        let sig: Signature = input.parse().map_err(|error| no_function(&ahead, start, error))?;
        let body = if input.is_empty() { None } else { block(input.parse()?) };
        refuse(&sig, body.as_ref())?;
        let body = body.ok_or_else(|| {
            let sentence =
                format!("`{}` has no body here: put `#[distributed_lock]` on the implementation", sig.ident);
            Error::new(sig.ident.span(), sentence)
        })?;
        let boxed = if sig.asyncness.is_some() { None } else { Boxed::open(&sig, &body) };
        Ok(match boxed {
            Some((boxed, body)) => Self { attrs, vis, sig, body, boxed: Some(boxed) },
            None => Self { attrs, vis, sig, body, boxed: None },
        })
    }
}

/// The `{ .. }`, also out of the invisible group of a `$body:block`.
fn block(tree: TokenTree) -> Option<Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            block(group.stream().into_iter().next()?)
        }
        _ => None,
    }
}

pub(crate) const MOVE_IT: &str = "`#[distributed_lock]` goes on an `async fn` with a body: move it there";

/// A function whose signature does not parse keeps syn's message; anything else is told where the attribute goes.
fn no_function(input: ParseStream<'_>, start: Span, error: Error) -> Error {
    let mut words = std::iter::from_fn(|| input.parse::<TokenTree>().ok());
    if words.any(|tree| matches!(tree, TokenTree::Ident(word) if word == "fn")) && !input.is_empty() {
        return error;
    }
    Error::new(start, MOVE_IT)
}

fn refuse(sig: &Signature, body: Option<&Group>) -> Result<()> {
    if let Some(constness) = &sig.constness {
        return Err(Error::new_spanned(
            constness,
            "a `const fn` runs at compile time and cannot take a lock: write `async fn`",
        ));
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new_spanned(
            abi,
            "a foreign caller cannot wait for a lock: put the lock on an `async fn` that this function calls",
        ));
    }
    if sig.asyncness.is_some() || body.is_none() {
        return Ok(());
    }
    let sentence = match &sig.output {
        ReturnType::Type(_, output)
            if boxed::output(output).is_some()
                && body.is_some_and(|body| Boxed::open(sig, body).is_some()) =>
        {
            return Ok(());
        }
        ReturnType::Type(_, output) if names_future(output) => {
            "this function only makes a future, so the lock would end before the work starts: write `async fn`"
        }
        _ => {
            "this function is not `async`, so it cannot wait for a lock: write `async fn`, and if you did, a macro \
             above (such as `#[tokio::main]`) has taken it away: put the lock above that macro"
        }
    };
    Err(Error::new_spanned(sig.fn_token, sentence))
}

/// Whether a type names a future: `impl Future`, `Pin<Box<dyn Future>>`, `BoxFuture`.
fn names_future(output: &Type) -> bool {
    struct Find(bool);
    impl Visit<'_> for Find {
        fn visit_ident(&mut self, word: &Ident) {
            self.0 |= word.to_string().ends_with("Future");
        }
    }
    let mut find = Find(false);
    find.visit_type(output);
    find.0
}

impl Function {
    /// `self`, as the body calls it.
    pub(crate) fn receiver(&self) -> Option<Ident> {
        let this = self.boxed.as_ref().and_then(|boxed| boxed.this.clone());
        this.or_else(|| self.sig.receiver().map(|receiver| Ident::new("self", receiver.self_token.span)))
    }

    /// The named arguments in their order.
    pub(crate) fn captures(&self) -> Vec<Capture> {
        let mut captures = self.arguments();
        if let Some(boxed) = &self.boxed {
            captures.retain(|capture| !boxed.moved.contains(&capture.name));
            let is_this = |name: &Ident| boxed.this.as_ref() == Some(name);
            let anew = boxed.bound.iter().filter(|name| !is_this(name)).cloned();
            captures.extend(anew.map(|name| Capture { cfgs: Vec::new(), name }));
        }
        captures
    }

    fn arguments(&self) -> Vec<Capture> {
        let mut captures = Vec::new();
        for input in &self.sig.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let cfgs: Vec<_> =
                typed.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect();
            let names = Bound::of(&typed.pat);
            captures.extend(names.into_iter().map(|name| Capture { cfgs: cfgs.clone(), name }));
        }
        captures
    }

    /// Names every `_` argument, so that it can move into the body as well.
    pub(crate) fn name_ignored(&mut self) {
        for (index, input) in self.sig.inputs.iter_mut().enumerate() {
            if let FnArg::Typed(typed) = input
                && matches!(&*typed.pat, Pat::Wild(_))
            {
                let name = Ident::new(&format!("__ignored_{index}"), Span::mixed_site());
                *typed.pat = Pat::Verbatim(name.into_token_stream());
            }
        }
    }

    /// Moves `#![..]` from the top of the body to the function, since the body becomes a block inside another.
    pub(crate) fn lift_inner_attributes(&mut self) {
        let parser =
            |input: ParseStream<'_>| Ok((input.call(Attribute::parse_inner)?, input.parse::<TokenStream>()?));
        let Ok((inner, rest)) = parser.parse2(self.body.stream()) else {
            return;
        };
        if inner.is_empty() {
            return;
        }
        let span = self.body.span();
        self.body = Group::new(Delimiter::Brace, rest);
        self.body.set_span(span);
        self.attrs.extend(inner.into_iter().map(|attr| Attribute { style: syn::AttrStyle::Outer, ..attr }));
    }

    /// The body's type as it can be named inside the function.
    pub(crate) fn output(&self) -> Output {
        match &self.sig.output {
            // Spanned at the name: where nothing is written, that is where a reader looks for the type.
            ReturnType::Default => Output::named(quote_spanned!(self.sig.ident.span()=> ())),
            ReturnType::Type(_, future) if self.boxed.is_some() => {
                let output = Output::of(boxed::output(future).unwrap_or_else(|| (**future).clone()));
                Output { must_be_send: boxed::is_send(future), ..output }
            }
            ReturnType::Type(_, output) => Output::of((**output).clone()),
        }
    }

    /// The whole function with `inside` as what it does.
    pub(crate) fn with(&self, inside: &TokenStream) -> TokenStream {
        let Self { attrs, vis, sig, body, boxed } = self;
        let inside = boxed.as_ref().map_or_else(|| inside.clone(), |boxed| boxed.around(inside));
        let mut block = Group::new(Delimiter::Brace, inside);
        block.set_span(body.span());
        quote!(#(#attrs)* #vis #sig #block)
    }

    /// The function for the compiler to look at when the lock is wrong: arguments used, lease named.
    pub(crate) fn unlocked(&self, args: &Args) -> TokenStream {
        let body = &self.body;
        let uses =
            self.captures().into_iter().map(|Capture { cfgs, name }| quote!(#(#cfgs)* let _ = &#name;));
        let hidden: Vec<Ident> = self.captures().into_iter().map(|capture| capture.name).collect();
        let lease = args.lease.as_ref().filter(|lease| !hidden.contains(lease)).map(|lease| {
            let runtime = &args.runtime;
            quote!(let #lease: &#runtime::Lease = ::core::option::Option::unwrap(::core::option::Option::None);)
        });
        self.with(&quote!(#(#uses)* #lease #body))
    }
}

/// The type that a body gives.
pub(crate) struct Output {
    /// `_` where it cannot be named.
    pub(crate) named: TokenStream,
    pub(crate) kind: Kind,
    /// Whether the function says that its future is `Send`.
    pub(crate) must_be_send: bool,
}

/// What the type itself is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// `impl Trait`; whether the trait is that of an answer of a web framework.
    Hidden {
        web: bool,
    },
    /// `!`
    Never,
}

impl Output {
    fn named(named: TokenStream) -> Self {
        Self { named, kind: Kind::Plain, must_be_send: false }
    }

    fn of(mut output: Type) -> Self {
        let kind = match &output {
            Type::ImplTrait(hidden) => Kind::Hidden { web: hidden.bounds.iter().any(is_web) },
            Type::Never(_) => Kind::Never,
            _ => Kind::Plain,
        };
        let span = output.span();
        NameImpl.visit_type_mut(&mut output);
        let named = match kind {
            // No `let` may have the type `!`.
            Kind::Never => quote_spanned!(span=> ::core::convert::Infallible),
            _ => output.into_token_stream(),
        };
        Self { named, kind, must_be_send: false }
    }
}

fn is_web(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(bound)
        if bound.path.segments.last().is_some_and(|last| last.ident == "IntoResponse" || last.ident == "Responder"))
}

/// The names a pattern binds.
#[derive(Default)]
pub(crate) struct Bound(Vec<Ident>);

impl Bound {
    pub(crate) fn of(pattern: &Pat) -> Vec<Ident> {
        let mut bound = Self::default();
        // Our own name for a `_`.
        if let Pat::Verbatim(tokens) = pattern
            && let Ok(name) = syn::parse2(tokens.clone())
        {
            bound.0.push(name);
        }
        bound.visit_pat(pattern);
        bound.0
    }
}

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

/// `impl Trait` inside a type cannot be named: the compiler finds out what it is.
struct NameImpl;

impl VisitMut for NameImpl {
    fn visit_type_mut(&mut self, output: &mut Type) {
        if matches!(output, Type::ImplTrait(_)) {
            *output = Type::Verbatim(quote_spanned!(output.span()=> _));
        } else {
            visit_mut::visit_type_mut(self, output);
        }
    }
}
