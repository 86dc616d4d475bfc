//! The function and its lock, checked together. Rules that need more than one argument stand here.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, Expr, FnArg, GenericParam, Pat, PatIdent, Result, ReturnType, Signature, Type,
    Visibility,
};

use crate::args::{Args, Contention, Millis};
use crate::diag::Mistakes;
use crate::key::{KeyTemplate, Scope, Text};

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

/// An argument that moves into the body, under its conditions.
pub(crate) struct Capture {
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) name: Ident,
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
        check_times(args.ttl.as_ref(), args.renew.as_ref(), &names, mistakes);
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
            constants: function.constants([args.ttl.as_ref(), args.renew.as_ref()]),
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

/// The times against each other, as far as they are literals.
fn check_times(ttl: Option<&Millis>, renew: Option<&Millis>, names: &[Ident], mistakes: &mut Mistakes) {
    for millis in [ttl, renew].into_iter().flatten() {
        if let Millis::Constant(path) = millis
            && path.path.get_ident().is_some_and(|word| names.contains(word))
        {
            let sentence = "a lease time is a constant, not an argument: write a number or a `const`";
            mistakes.add(Error::new_spanned(path, sentence));
        }
    }
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

/// An async function of which only the signature is parsed: what the body says is the compiler's business.
struct Function {
    attrs: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    body: Group,
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
        ReturnType::Type(_, output) if names_future(output) => {
            let pinned_block = body.is_some_and(|body| starts_with_pin(body));
            if pinned_block && matches!(&**output, Type::Path(_)) {
                "functions that `#[async_trait]` has rewritten are not supported yet: put the lock on an `async fn` that this one calls"
            } else {
                "this function only makes a future, so the lock would end before the work starts: write `async fn`"
            }
        }
        _ => {
            "this function is not `async`, so it cannot wait for a lock: write `async fn`, and if you did, a macro above (such as              `#[tokio::main]`) has taken it away: put the lock above that macro"
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

/// Whether a body is `Box::pin(..)`, as `#[async_trait]` leaves it.
fn starts_with_pin(body: &Group) -> bool {
    body.stream().to_string().replace(' ', "").starts_with("Box::pin(async")
}

impl Function {
    /// The named arguments in their order.
    fn captures(&self) -> Vec<Capture> {
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
    fn name_ignored(&mut self) {
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
    fn lift_inner_attributes(&mut self) {
        let parser =
            |input: ParseStream<'_>| Ok((input.call(Attribute::parse_inner)?, input.parse::<TokenStream>()?));
        let Ok((inner, rest)) = syn::parse::Parser::parse2(parser, self.body.stream()) else {
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

    fn output(&self) -> Result<TokenStream> {
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

    /// Whether an item inside the function may name the times: such an item knows neither `Self` nor type parameters.
    /// Those of an `impl` are out of sight, so any path through a type is left to the inline constant.
    fn constants(&self, times: [Option<&Millis>; 2]) -> bool {
        let mut paths = times.into_iter().flatten().filter_map(|millis| match millis {
            Millis::Constant(path) => Some(path),
            Millis::Literal(..) => None,
        });
        let parameter = |word: &Ident| {
            self.sig
                .generics
                .params
                .iter()
                .any(|param| matches!(param, GenericParam::Const(param) if param.ident == *word))
        };
        let plain = |path: &syn::ExprPath| {
            path.qself.is_none()
                && path
                    .path
                    .segments
                    .iter()
                    .rev()
                    .skip(1)
                    .all(|segment| !segment.ident.to_string().starts_with(char::is_uppercase))
                && !path.path.get_ident().is_some_and(parameter)
        };
        let first = paths.next();
        first.is_some_and(plain) && paths.all(plain)
    }

    /// The function for the compiler to look at when the lock is wrong: arguments used, lease named.
    fn unlocked(&self, args: &Args) -> TokenStream {
        let Self { attrs, vis, sig, body } = self;
        let uses =
            self.captures().into_iter().map(|Capture { cfgs, name }| quote!(#(#cfgs)* let _ = &#name;));
        let lease = args.lease.as_ref().map(|lease| {
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
