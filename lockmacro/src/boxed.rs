//! A function as `#[async_trait]` leaves it: it returns `Box::pin(async move { .. })`.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::parse::{ParseStream, Parser as _};
use syn::visit::{self, Visit};
use syn::{AssocType, Expr, Local, Pat, Path, Result, Signature, Stmt, TraitBound, Type};

use crate::function::Bound;

/// What stands around the body proper. The lock goes inside of it, so that it is taken when the future is polled.
pub(crate) struct Boxed {
    /// `Box::pin`
    pin: TokenStream,
    /// `async move`
    keywords: TokenStream,
    /// Where the brackets around `async move` and the block stand.
    places: (Span, Span),
    /// What `#[async_trait]` puts before the body: a return that is never reached, and the arguments bound anew.
    leading: TokenStream,
    /// The names that these statements bind, and the arguments they consume.
    pub(crate) bound: Vec<Ident>,
    pub(crate) moved: Vec<Ident>,
    /// `self`, as the block calls it.
    pub(crate) this: Option<Ident>,
}

impl Boxed {
    /// The shell and the body in it, if the function consists of such a block alone.
    pub(crate) fn open(sig: &Signature, body: &Group) -> Option<(Self, Group)> {
        let mut pin: Vec<TokenTree> = body.stream().into_iter().collect();
        let arguments = group(pin.pop()?, Delimiter::Parenthesis)?;
        if !is_box_pin(&pin) || is_by_hand(sig, &pin) {
            return None;
        }
        let mut keywords: Vec<TokenTree> = arguments.stream().into_iter().collect();
        let block = group(keywords.pop()?, Delimiter::Brace)?;
        if !keywords.iter().any(|word| matches!(word, TokenTree::Ident(word) if word == "async")) {
            return None;
        }
        let mut boxed = Self {
            pin: pin.into_iter().collect(),
            keywords: keywords.into_iter().collect(),
            places: (arguments.span(), block.span()),
            leading: TokenStream::new(),
            bound: Vec::new(),
            moved: Vec::new(),
            this: None,
        };
        let rest = (|input: ParseStream<'_>| boxed.read_leading(input)).parse2(block.stream()).ok()?;
        let mut inner = Group::new(Delimiter::Brace, rest);
        inner.set_span(block.span());
        Some((boxed, inner))
    }

    /// Reads the leading statements; gives back what follows them.
    fn read_leading(&mut self, input: ParseStream<'_>) -> Result<TokenStream> {
        loop {
            let ahead = input.fork();
            let leads = match ahead.parse::<Stmt>() {
                Ok(Stmt::Local(local)) => self.rebinds(&local),
                Ok(Stmt::Expr(Expr::If(branch), _)) => {
                    self.leading.is_empty() && is_never_taken(&branch.cond)
                }
                _ => false,
            };
            if !leads {
                return input.parse();
            }
            self.leading.extend(input.parse::<Stmt>()?.into_token_stream());
        }
    }

    /// Notes a `let x = x;`, `let __self = self;` or `let PATTERN = { let x = x; x };`.
    fn rebinds(&mut self, local: &Local) -> bool {
        let Some(source) = local.init.as_ref().and_then(|init| moved(&init.expr)) else {
            return false;
        };
        let names = Bound::of(&local.pat);
        if source == "self" {
            self.this = names.first().cloned();
        } else if matches!(&local.pat, Pat::Ident(name) if name.ident != source) {
            return false;
        }
        self.bound.extend(names);
        self.moved.push(source);
        true
    }

    /// `Box::pin(async move { leading inside })`
    pub(crate) fn around(&self, inside: &TokenStream) -> TokenStream {
        let Self { pin, keywords, places, leading, .. } = self;
        let mut block = Group::new(Delimiter::Brace, quote!(#leading #inside));
        block.set_span(places.1);
        let mut arguments = Group::new(Delimiter::Parenthesis, quote!(#keywords #block));
        arguments.set_span(places.0);
        quote!(#pin #arguments)
    }
}

/// `Box::pin`, and nothing before it that would run outside the lock.
fn is_box_pin(tokens: &[TokenTree]) -> bool {
    let path = syn::parse2::<Path>(tokens.iter().cloned().collect());
    path.is_ok_and(|path| {
        let mut words = path.segments.iter().rev().map(|segment| segment.ident.to_string());
        words.next().as_deref() == Some("pin") && words.next().as_deref() == Some("Box")
    })
}

/// Whether a person wrote this, who can as well write `async fn`. What `#[async_trait]` makes has a lifetime of that
/// name; of what any attribute makes, `Box` stands nowhere in the source.
fn is_by_hand(sig: &Signature, pin: &[TokenTree]) -> bool {
    let by_async_trait = sig.generics.lifetimes().any(|param| param.lifetime.ident == "async_trait");
    let is_box = |tree: &TokenTree| matches!(tree, TokenTree::Ident(word) if word == "Box");
    let source = pin.iter().find(|tree| is_box(tree)).and_then(|word| word.span().source_text());
    !by_async_trait && source.as_deref() == Some("Box")
}

fn group(tree: TokenTree, delimiter: Delimiter) -> Option<Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// The argument in `x` or `{ let x = x; x }`.
fn moved(value: &Expr) -> Option<Ident> {
    match value {
        Expr::Path(path) => path.path.get_ident().cloned(),
        Expr::Block(block) => match block.block.stmts.as_slice() {
            [Stmt::Local(local), Stmt::Expr(last, None)] => {
                let first = local.init.as_ref().and_then(|init| moved(&init.expr))?;
                moved(last).filter(|last| *last == first)
            }
            _ => None,
        },
        _ => None,
    }
}

/// `let Some(_) = None`
fn is_never_taken(condition: &Expr) -> bool {
    let Expr::Let(condition) = condition else {
        return false;
    };
    matches!(&*condition.expr, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "None"))
}

/// Whether a future is said to be `Send`.
pub(crate) fn is_send(future: &Type) -> bool {
    struct Find(bool);
    impl Visit<'_> for Find {
        fn visit_trait_bound(&mut self, bound: &TraitBound) {
            self.0 |= bound.path.segments.last().is_some_and(|last| last.ident == "Send");
        }
    }
    let mut find = Find(false);
    find.visit_type(future);
    find.0
}

/// The `T` of a type that holds `Future<Output = T>`.
pub(crate) fn output(future: &Type) -> Option<Type> {
    struct Find(Option<Type>);
    impl<'ast> Visit<'ast> for Find {
        fn visit_assoc_type(&mut self, assoc: &'ast AssocType) {
            if assoc.ident == "Output" && self.0.is_none() {
                self.0 = Some(assoc.ty.clone());
            } else {
                visit::visit_assoc_type(self, assoc);
            }
        }
    }
    let mut find = Find(None);
    find.visit_type(future);
    find.0
}
