//! Mistakes of the user: collected, then reported together beside the function.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};

/// All mistakes found in one attribute.
#[derive(Default)]
pub(crate) struct Mistakes(Vec<syn::Error>);

impl Mistakes {
    /// Adds a sentence at the place it is about.
    pub(crate) fn push(&mut self, span: Span, sentence: impl Display) {
        self.add(syn::Error::new(span, sentence));
    }

    /// Adds an error; one that says the same as an earlier one is dropped.
    pub(crate) fn add(&mut self, error: syn::Error) {
        let sentence = error.to_string();
        if !self.0.iter().any(|known| known.to_string() == sentence) {
            self.0.push(error);
        }
    }

    /// The value, or nothing and the error added.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the mistakes after the first `len`: they follow from one that is on record.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// The item as it shall stand, with the mistakes beside it: callers of the function see no follow-up errors.
    pub(crate) fn beside(&self, mut item: TokenStream) -> TokenStream {
        item.extend(self.0.iter().map(syn::Error::to_compile_error));
        item
    }

    #[cfg(test)]
    pub(crate) fn sentences(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

/// `` `a`, `b` ``
pub(crate) fn list<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{}`", word.as_ref())).collect();
    quoted.join(", ")
}

/// The word that was most likely meant, if one is near enough.
pub(crate) fn nearest<'a, S: AsRef<str>>(word: &str, known: &'a [S]) -> Option<&'a str> {
    let limit = word.chars().count() / 3 + 1;
    known
        .iter()
        .map(|candidate| (distance(word, candidate.as_ref()), candidate.as_ref()))
        .filter(|(distance, candidate)| {
            *distance <= limit || (word.len() >= 3 && candidate.starts_with(word))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Number of single-letter edits between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
