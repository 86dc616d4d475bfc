//! Key templates: text and `{expr}` segments, and what may stand in them.

use std::str::FromStr as _;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;

use crate::diag::Mistakes;
use crate::placeholder::{Form, Value};
use crate::scope::Scope;
use crate::text::Text;

/// Encoded values never contain these, so one of them between two values tells where the first ends.
const SEPARATORS: [char; 5] = [':', '/', '|', '#', ','];

/// Longest template in bytes.
const LONGEST: usize = 1_000;

/// A checked template.
pub(crate) struct KeyTemplate {
    pub(crate) segments: Vec<Segment>,
    pub(crate) span: Span,
}

/// A piece of a template.
pub(crate) enum Segment {
    Text(String),
    Value(Value),
}

impl KeyTemplate {
    /// `None` if anything is wrong with it; every mistake is on record then.
    pub(crate) fn read(text: &Text, mistakes: &mut Mistakes) -> Option<Self> {
        let before = mistakes.len();
        if text.value.len() > LONGEST {
            mistakes.push(
                text.span,
                format!(
                    "this key is longer than {LONGEST} bytes: move the expressions in it into a function"
                ),
            );
            return None;
        }
        let mut segments = Vec::new();
        let mut rest = text.value.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            push_text(&mut segments, &rest[..at]);
            rest = match placeholder(&rest[at..]) {
                Ok((source, tokens, after)) => {
                    segments
                        .extend(mistakes.keep(Value::read(source, tokens, text.span)).map(Segment::Value));
                    after
                }
                Err((sentence, after)) => {
                    mistakes.push(text.span, sentence);
                    after
                }
            };
        }
        push_text(&mut segments, rest);
        if mistakes.len() == before {
            check_text(&segments, text.span, mistakes);
            check_separators(&segments, text.span, mistakes);
        }
        (mistakes.len() == before).then_some(Self { segments, span: text.span })
    }

    /// Whether two templates give the same key, however their placeholders are spaced.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let parts = |key: &Self| key.segments.iter().map(Segment::canonical).collect::<Vec<_>>();
        parts(self) == parts(other)
    }

    /// Gives every name of the placeholders its argument; names that are none become mistakes.
    pub(crate) fn resolve(&mut self, scope: &Scope<'_>, mistakes: &mut Mistakes) {
        for segment in &mut self.segments {
            if let Segment::Value(value) = segment
                && let Some(bound) = mistakes.keep(scope.bind(&value.expr, self.span))
            {
                value.expr = bound;
            }
        }
    }
}

impl Segment {
    fn canonical(&self) -> (String, Option<Form>) {
        match self {
            Self::Text(text) => (text.clone(), None),
            Self::Value(value) => (value.expr.to_token_stream().to_string(), Some(value.form)),
        }
    }
}

fn push_text(segments: &mut Vec<Segment>, text: &str) {
    if !text.is_empty() {
        segments.push(Segment::Text(text.to_owned()));
    }
}

/// Splits `{source}after`: the first `}` before which everything lexes as Rust ends the placeholder.
fn placeholder(text: &str) -> std::result::Result<(&str, TokenStream, &str), (&'static str, &str)> {
    if text.starts_with("{{") || text.starts_with("}}") {
        return Err((
            "a key holds no braces, so `{{` and `}}` mean nothing here: write `{name}` for a value",
            &text[2..],
        ));
    }
    let Some(inside) = text.strip_prefix('{') else {
        return Err(("this `}` closes nothing: a key holds no braces, so remove it", &text[1..]));
    };
    inside
        .match_indices('}')
        .find_map(|(end, _)| {
            Some((&inside[..end], TokenStream::from_str(&inside[..end]).ok()?, &inside[end + 1..]))
        })
        .ok_or(("a `{` in this key is never closed: write `{name}`", ""))
}

fn check_text(segments: &[Segment], span: Span, mistakes: &mut Mistakes) {
    if segments.is_empty() {
        mistakes.push(span, "the key is empty: name what is locked, e.g. `quote:{id}`");
    }
    for segment in segments {
        let Segment::Text(text) = segment else {
            continue;
        };
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '%') {
            let sentence = format!(
                "{bad:?} cannot stand in the text of a key: write printable ASCII without space, `%` and braces"
            );
            mistakes.push(span, sentence);
        }
    }
}

fn check_separators(segments: &[Segment], span: Span, mistakes: &mut Mistakes) {
    let mut open: Option<&Value> = None;
    for segment in segments {
        match segment {
            Segment::Text(text) if text.contains(SEPARATORS) => open = None,
            Segment::Text(_) => {}
            Segment::Value(value) => {
                if let Some(left) = open.replace(value) {
                    let (left, right) = (left.expr.to_token_stream(), value.expr.to_token_stream());
                    let sentence = format!(
                        "nothing separates `{{{left}}}` from `{{{right}}}`, so two different pairs of values could give one key: \
                         put one of `:` `/` `|` `#` `,` between them"
                    );
                    mistakes.push(span, sentence);
                }
            }
        }
    }
}
