//! Key templates put together at random, alone and without a function.

use proc_macro2::{Ident, Span};

use super::mutation::Dice;
use crate::diag::Mistakes;
use crate::key::{KeyTemplate, Segment};
use crate::scope::Scope;
use crate::text::Text;

/// Placeholders of which each is right, and most tempt a reader to end them too early or too late.
const VALUES: &[&str] = &[
    "{tenant}",
    "{ id }",
    "{*id}",
    "{self.name}",
    "{r#type}",
    "{id:hash}",
    "{ id : display }",
    "{tenant.split('}').count()}",
    "{tenant.replace(\"}\", \"{\")}",
    "{tenant.replace(\"\\\"}\", \"\\\\\")}",
    "{tenant.find(r#\"}\"}\"#).map_or(0, |at| at)}",
    "{tenant.as_bytes().contains(&b'}')}",
    "{tenant.starts_with(b\"}{\")}",
    "{tenant.find(\"ä}☃\").unwrap_or(0)}",
    "{tenant.find('☃').is_some_and(|at| { at > 1 }):display}",
    "{id /* } */}",
    "{id /* { /* } */ } */ :hash}",
    "{ { let a = id; { a } } }",
    "{match id { 0 => 1, n => n }}",
    "{Id { id, ..id }.text()}",
    "{lower::<{ N }>(tenant)}",
    "{format!(\"{id}}}\")}",
    "{Self::NAME}",
    "{if tenant == \"}\" { '{' } else { '}' }}",
];

/// Text that separates nothing, and text that does.
const TEXTS: &[&str] = &["q", "-x-", "~@+=.", "_", "\"", "'", "\\", "$", "(", ")", "!?", "<>", "r#", "b"];
const SEPARATORS: &[&str] = &[":", "/", "|", "#", ",", "//", "::", "/*", "*/:"];

/// Pieces that are one mistake each, wherever between two segments they stand.
const WRONG: &[&str] = &[
    "{tenat}",
    "{}",
    "{ }",
    "{:hash}",
    "{id:?}",
    "{id:>8}",
    "{id:}",
    "{id?}",
    "{id.get().await}",
    "{$id}",
    "{7}",
    "{\"}\"}",
    "{id id}",
    "{Uuid::new_v4()}",
    "{now()}",
    "{return}",
    " ",
    "é",
    "☃",
    "%",
    "\u{0}",
    "\u{202e}",
    "}",
    "{{",
    "}}",
];

/// Pieces of noise.
const NOISE: &[&str] = &[
    "{", "}", "{{", "}}", "\"", "'", "r\"", "r#\"", "\"#", "b'", "c\"", "/*", "*/", "//", "\n", "\\", "\\\"",
    "'a", "(", ")", "[", "]", "::", ":", ":?", ":hash", ":display", "?", ".", ".await", "$", "%", "#", ",",
    " ", "é", "☃", "\u{202e}", "\u{0}", "id", "tenant", "self", "r#type", "_", "0", "1e", "0x", "1_000",
    "..=", "=>", "|", "&", "<", ">", "!", "move", "async",
];

/// The template, if it is right, and the mistakes in it.
fn read(template: &str) -> (Option<KeyTemplate>, Vec<String>) {
    let mut mistakes = Mistakes::default();
    let text = Text { value: template.to_owned(), span: Span::call_site() };
    let mut key = KeyTemplate::read(&text, &mut mistakes);
    let names = ["tenant", "id", "type"].map(|name| Ident::new_raw(name, Span::call_site()));
    let receiver = Some(Ident::new("self", Span::call_site()));
    if let Some(key) = &mut key {
        key.resolve(&Scope { names: &names, receiver }, &mut mistakes);
    }
    (key, mistakes.sentences())
}

/// A right template of some values, and the places where a further segment may stand.
fn right(dice: &mut Dice, values: usize) -> (Vec<&'static str>, Vec<usize>) {
    let (mut pieces, mut places) = (vec![dice.of(TEXTS), dice.of(SEPARATORS)], vec![0, 1, 2]);
    for _ in 0..values {
        pieces.push(dice.of(VALUES));
        if dice.below(2) == 0 {
            pieces.push(dice.of(TEXTS));
        }
        pieces.push(dice.of(SEPARATORS));
        places.push(pieces.len());
    }
    (pieces, places)
}

fn values(key: &KeyTemplate) -> usize {
    key.segments.iter().filter(|segment| matches!(segment, Segment::Value(_))).count()
}

fn text(key: &KeyTemplate) -> String {
    let text = |segment: &Segment| match segment {
        Segment::Text(text) => text.clone(),
        Segment::Value(_) => String::new(),
    };
    key.segments.iter().map(text).collect()
}

#[test]
fn right_templates_are_read_as_they_were_put_together() {
    let mut dice = Dice(1);
    for _ in 0..25_000 {
        let expected = dice.below(5);
        let (pieces, _) = right(&mut dice, expected);
        let template = pieces.concat();
        let (key, mistakes) = read(&template);
        assert_eq!(mistakes, Vec::<String>::new(), "{template}");
        let key = key.unwrap_or_else(|| panic!("{template}"));
        assert_eq!(values(&key), expected, "{template}");
        let outside: String = pieces.iter().copied().filter(|piece| !VALUES.contains(piece)).collect();
        assert_eq!(text(&key), outside, "{template}");
    }
}

#[test]
fn one_wrong_piece_of_a_template_gives_one_sentence() {
    let mut dice = Dice(2);
    for _ in 0..25_000 {
        let segments = dice.below(5);
        let (mut pieces, places) = right(&mut dice, segments);
        let place = places[dice.below(places.len())];
        let wrong = dice.of(WRONG);
        pieces.splice(place..place, [wrong, dice.of(SEPARATORS)]);
        let template = pieces.concat();
        let (_, mistakes) = read(&template);
        assert_eq!(mistakes.len(), 1, "{wrong} in {template}: {mistakes:#?}");
    }
}

#[test]
fn noise_is_accepted_or_has_a_sentence_and_never_panics() {
    let mut dice = Dice(3);
    let mut accepted = 0;
    for _ in 0..50_000 {
        let pieces: Vec<&str> = (0..dice.below(12))
            .map(|_| match dice.below(8) {
                0 => dice.of(VALUES),
                1 => dice.of(SEPARATORS),
                _ => dice.of(NOISE),
            })
            .collect();
        let template = pieces.concat();
        let read = std::panic::catch_unwind(|| {
            let (key, mistakes) = read(&template);
            (key.map(|key| (values(&key), text(&key))), mistakes)
        });
        let (key, mistakes) = read.unwrap_or_else(|_| panic!("{template:?}"));
        let Some((values, text)) = key.filter(|_| mistakes.is_empty()) else {
            assert!(!mistakes.is_empty(), "{template:?}");
            assert!(mistakes.len() <= template.chars().count().max(1), "{template:?}: {mistakes:#?}");
            continue;
        };
        accepted += 1;
        assert!(
            text.chars().all(|letter| letter.is_ascii_graphic() && !"%{}".contains(letter)),
            "{template:?}"
        );
        assert!(values <= 1 || text.contains([':', '/', '|', '#', ',']), "{template:?}");
    }
    assert!(accepted > 500, "only {accepted} were right");
}
