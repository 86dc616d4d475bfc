//! One mistake is one error.

use proc_macro2::TokenStream;

use super::mutation::{Dice, ITEM, attributes, mistakes_in, pieces};

/// How many errors the compiler is told of.
fn count(args: TokenStream, item: TokenStream) -> usize {
    crate::expand(args, item).to_string().matches("compile_error").count()
}

/// The same for an attribute that may not even consist of tokens.
fn errors(args: &str) -> Option<usize> {
    Some(count(args.parse().ok()?, super::tokens(ITEM)))
}

/// Every attribute that differs from a right one by one piece, and how many mistakes that makes at most.
fn changed_once() -> Vec<(String, usize)> {
    let mut changed = Vec::new();
    for attribute in attributes() {
        for at in 0..attribute.len() {
            let mut with = |change: &dyn Fn(&mut Vec<&'static str>), mistakes: usize| {
                let mut attribute = attribute.clone();
                change(&mut attribute);
                changed.push((attribute.join(" "), mistakes));
            };
            for piece in pieces() {
                let more = mistakes_in(piece);
                with(&|attribute| attribute[at] = piece, 1.max(more));
                with(&|attribute| attribute.insert(at, piece), 1 + more);
            }
            with(&|attribute| attribute[at] = "", 1);
            with(&|attribute| attribute.insert(at, attribute[at]), 1);
            with(&|attribute| attribute.swap(at, at.saturating_sub(1)), 1);
        }
    }
    changed
}

#[test]
fn a_right_attribute_gives_no_error() {
    for attribute in attributes() {
        assert_eq!(errors(&attribute.join(" ")), Some(0));
    }
}

#[test]
fn one_wrong_piece_of_an_attribute_gives_one_error_at_most() {
    let (mut refused, mut differ) = (0, Vec::new());
    for (attribute, mistakes) in changed_once() {
        let Some(errors) = errors(&attribute) else { continue };
        refused += usize::from(errors > 0);
        if errors > mistakes {
            differ.push(format!("{errors} for {mistakes}: {attribute}"));
        }
    }
    assert!(refused > 5_000, "only {refused} were wrong");
    assert!(differ.is_empty(), "{}\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn one_wrong_piece_of_a_function_gives_one_error_at_most() {
    const FUNCTION: &str = "pub ( crate ) async fn f < 'a , T > ( & self , mut a : & 'a u8 , ( b , S { c , .. } ) : X < T > , _ : u8 ) -> Result < u8 , E > where T : X { Ok( a ) }";
    let args = super::tokens(r#"key = "q:{self.x}:{a}/{c}", ttl_ms = 10_000, lease = lent"#);
    let pieces = pieces();
    let more = ["fn", "const", "extern", "unsafe", "struct", "impl", "mut", ";", "->", "Box::pin", "'static"];
    let (mut refused, mut differ) = (0, Vec::new());
    let function: Vec<&str> = FUNCTION.split(' ').collect();
    for at in 0..function.len() {
        for piece in pieces.iter().chain(&more).chain(&[""]) {
            for keep in [0, 1] {
                let mut changed = function.clone();
                changed.splice(at..at + keep, [*piece]);
                let text = changed.join(" ");
                let Ok(item) = text.parse() else { continue };
                let errors = count(args.clone(), item);
                refused += usize::from(errors > 0);
                if errors > 1 {
                    differ.push(text);
                }
            }
        }
    }
    assert!(refused > 2_000, "only {refused} were wrong");
    assert!(differ.is_empty(), "{}\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn several_wrong_pieces_of_an_attribute_give_no_more_errors_than_there_are() {
    let mut dice = Dice(1);
    let mut differ = Vec::new();
    for _ in 0..10_000 {
        let changes = dice.below(4);
        let (attribute, mistakes) = dice.attribute(changes);
        if errors(&attribute).is_some_and(|errors| errors > mistakes) {
            differ.push(format!("{mistakes}: {attribute}"));
        }
    }
    assert!(differ.is_empty(), "{}\n{}", differ.len(), differ.join("\n"));
}
