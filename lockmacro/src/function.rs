//! The item as written: a function of which only the signature is parsed.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Error, FnArg, Pat, PatIdent, Result, ReturnType, Signature, Type, Visibility};

use crate::args::Args;

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
        Ok(Self { attrs, vis, sig, body })
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

/// A function whose signature does not parse keeps syn's message; anything else is told where the attribute goes.
fn no_function(input: ParseStream<'_>, start: Span, error: Error) -> Error {
    let mut words = std::iter::from_fn(|| input.parse::<TokenTree>().ok());
    if words.any(|tree| matches!(tree, TokenTree::Ident(word) if word == "fn")) && !input.is_empty() {
        return error;
    }
    Error::new(start, "`#[distributed_lock]` goes on an `async fn` with a body: move it there")
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
        ReturnType::Type(_, output) if names_future(output) && body.is_some_and(pins_a_block) => {
            "a function that returns `Box::pin(async move { .. })`, as `#[async_trait]` makes it, is not supported yet: \
             put the lock on an `async fn` that this one calls"
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

/// Whether a body makes a boxed block, as `#[async_trait]` leaves it.
fn pins_a_block(body: &Group) -> bool {
    let text: String = body.stream().to_string().split_whitespace().collect();
    text.contains("Box::pin(async")
}

impl Function {
    /// The named arguments in their order.
    pub(crate) fn captures(&self) -> Vec<Capture> {
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
                let name = Ident::new(&format!("ignored_{index}"), Span::mixed_site());
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

    pub(crate) fn output(&self) -> Result<TokenStream> {
        match &self.sig.output {
            // Spanned at the name: where nothing is written, that is where a reader looks for the type.
            ReturnType::Default => Ok(quote_spanned!(self.sig.ident.span()=> ())),
            ReturnType::Type(_, output) => match &**output {
                Type::ImplTrait(_) => Err(Error::new_spanned(
                    output,
                    "`-> impl Trait` has no room for a refusal yet: write a concrete type, such as `Result<_, E>`",
                )),
                Type::Never(_) => Err(Error::new_spanned(
                    output,
                    "a function that never returns has no room for a refusal: write `-> Result<Infallible, E>`",
                )),
                _ => {
                    let mut output = (**output).clone();
                    NameImpl.visit_type_mut(&mut output);
                    Ok(output.into_token_stream())
                }
            },
        }
    }

    /// The function for the compiler to look at when the lock is wrong: arguments used, lease named.
    pub(crate) fn unlocked(&self, args: &Args) -> TokenStream {
        let Self { attrs, vis, sig, body } = self;
        let uses =
            self.captures().into_iter().map(|Capture { cfgs, name }| quote!(#(#cfgs)* let _ = &#name;));
        let hidden: Vec<Ident> = self.captures().into_iter().map(|capture| capture.name).collect();
        let lease = args.lease.as_ref().filter(|lease| !hidden.contains(lease)).map(|lease| {
            let runtime = &args.runtime;
            quote!(let #lease: &#runtime::Lease = ::core::option::Option::unwrap(::core::option::Option::None);)
        });
        let mut block = Group::new(Delimiter::Brace, quote!(#(#uses)* #lease #body));
        block.set_span(body.span());
        quote!(#(#attrs)* #vis #sig #block)
    }
}

/// The names a pattern binds.
#[derive(Default)]
struct Bound(Vec<Ident>);

impl Bound {
    fn of(pattern: &Pat) -> Vec<Ident> {
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
            *output = Type::Verbatim(quote!(_));
        } else {
            visit_mut::visit_type_mut(self, output);
        }
    }
}
