//! The names that the expressions of a key may use, and how they are found.

use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Error, Expr, ExprCall, ExprPath, PatIdent, Result};

use crate::diag::{list, nearest};

/// How `#[async_trait]` calls an argument that is a pattern.
const POSITIONAL: &str = "__arg";

/// What the expressions of a key may name.
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a [Ident],
    /// `self`, as the body calls it.
    pub(crate) receiver: Option<Ident>,
}

/// An expression of the user's with `self` as the body calls it.
pub(crate) fn with_receiver(tokens: TokenStream, receiver: &Ident) -> TokenStream {
    let rename = |tree| match tree {
        TokenTree::Ident(word) if word == "self" => TokenTree::Ident(receiver.clone()),
        TokenTree::Group(group) => {
            let mut renamed = Group::new(group.delimiter(), with_receiver(group.stream(), receiver));
            renamed.set_span(group.span());
            TokenTree::Group(renamed)
        }
        other => other,
    };
    tokens.into_iter().map(rename).collect()
}

/// The variables an expression reads.
#[derive(Default)]
pub(crate) struct Roots {
    read: Vec<Ident>,
    bound: Vec<Ident>,
}

impl Roots {
    pub(crate) fn of(expr: &Expr) -> Vec<Ident> {
        let mut roots = Self::default();
        if let Expr::Infer(infer) = expr {
            roots.read.push(Ident::new("_", infer.underscore_token.span));
        }
        roots.visit_expr(expr);
        let bound = roots.bound;
        roots.read.into_iter().filter(|word| !bound.contains(word)).collect()
    }
}

impl<'ast> Visit<'ast> for Roots {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.read.extend(path.path.get_ident().filter(|_| path.qself.is_none()).cloned());
        visit::visit_expr_path(self, path);
    }
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        // A lone name that is called is a function, not an argument.
        if !matches!(&*call.func, Expr::Path(path) if path.path.get_ident().is_some()) {
            self.visit_expr(&call.func);
        }
        call.args.iter().for_each(|arg| self.visit_expr(arg));
    }
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.bound.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}

impl Scope<'_> {
    fn find(&self, word: &Ident) -> Option<&Ident> {
        self.names.iter().find(|name| name.unraw() == word.unraw())
    }

    /// Why a root name is refused. Names with a capital are constants and left to the compiler.
    fn refusal(&self, root: &Ident, span: Span) -> Option<Error> {
        let word = root.unraw().to_string();
        if root == "self" {
            let sentence = "`self` in the key: this function has no `self`, name one of its arguments";
            return self.receiver.is_none().then(|| Error::new(span, sentence));
        }
        if self.find(root).is_some() || word.starts_with(char::is_uppercase) {
            return None;
        }
        let names: Vec<String> = self.names.iter().map(|name| name.unraw().to_string()).collect();
        let (hidden, names): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.starts_with(POSITIONAL));
        let hint =
            nearest(&word, &names).map_or_else(String::new, |meant| format!("did you mean `{meant}`? "));
        let mut known = match (names.is_empty(), &self.receiver) {
            (true, None) => "there are none".into(),
            (true, Some(_)) => format!("there is only `self`: write `{{self.{word}}}` for its field"),
            (false, None) => format!("the arguments are {}", list(&names)),
            (false, Some(_)) => format!("the arguments are `self`, {}", list(&names)),
        };
        if !hidden.is_empty() {
            known +=
                ", and an attribute above hides the names in patterns: put `#[distributed_lock]` above it";
        }
        Some(Error::new(span, format!("no argument is called `{word}`: {hint}{known}")))
    }

    /// The expression with every name in its scope. The tokens come from a string and so belong to no scope: arguments get their own, the rest the attribute's.
    pub(crate) fn bind(&self, expr: &Expr, span: Span) -> Result<Expr> {
        if let Some(error) = Roots::of(expr).iter().find_map(|root| self.refusal(root, span)) {
            return Err(error);
        }
        let plain = matches!(expr, Expr::Path(_));
        let bound = self.bind_tokens(expr.to_token_stream(), span, plain);
        Ok(syn::parse2(bound).unwrap_or_else(|_| expr.clone()))
    }

    fn bind_tokens(&self, tokens: TokenStream, span: Span, plain: bool) -> TokenStream {
        tokens.into_iter().map(|tree| self.bind_token(tree, span, plain)).collect()
    }

    fn bind_token(&self, tree: TokenTree, span: Span, plain: bool) -> TokenTree {
        let here = Span::mixed_site().located_at(span);
        match tree {
            TokenTree::Group(group) => {
                let mut bound = Group::new(group.delimiter(), self.bind_tokens(group.stream(), span, plain));
                bound.set_span(here);
                TokenTree::Group(bound)
            }
            TokenTree::Ident(mut word) => {
                match (self.find(&word), &self.receiver) {
                    (Some(name), _) if plain => return TokenTree::Ident(name.clone()),
                    (Some(name), _) => word.set_span(span.resolved_at(name.span())),
                    (None, Some(receiver)) if word == "self" => {
                        word = Ident::new(&receiver.to_string(), span.resolved_at(receiver.span()));
                    }
                    (None, _) => word.set_span(here),
                }
                TokenTree::Ident(word)
            }
            // A format string inside a placeholder looks its names up where the user wrote it.
            TokenTree::Literal(literal) => TokenTree::Literal(at(literal, span)),
            TokenTree::Punct(mut punct) => {
                punct.set_span(here);
                TokenTree::Punct(punct)
            }
        }
    }
}

fn at(mut literal: Literal, span: Span) -> Literal {
    literal.set_span(span);
    literal
}
