//! The layers of `docs/architecture.md`, compared with what the runtime's files import.

#![allow(clippy::expect_used)] // a tree that cannot be read ends the test, and says why

use std::fs;
use std::path::{Path, PathBuf};

/// The files that are nothing but lists of modules.
const LISTS: [&str; 4] = ["backend", "lib", "protocol", "web"];

#[test]
fn a_file_imports_from_rows_above_or_from_its_left() {
    let layers = Layers::of_the_architecture();
    let mut wrong = Vec::new();
    for (module, code) in sources().into_iter().filter(|(module, _)| !LISTS.contains(&module.as_str())) {
        let Some(own) = layers.place(&module) else {
            wrong.push(format!("{module} stands in no layer: add it to the table in docs/architecture.md"));
            continue;
        };
        for import in imports(&code) {
            match layers.place(import) {
                // Files of one directory are one place.
                Some(place) if place == own => {}
                Some((row, column)) if row < own.0 || (row == own.0 && column < own.1) => {}
                Some(_) => wrong
                    .push(format!("{module} imports {import}, which is neither above nor to the left of it")),
                // The outermost row may use what the crate's root offers to everybody.
                None if own.0 == 4 && import.starts_with(char::is_uppercase) => {}
                None => wrong.push(format!("{module} imports {import}, which stands in no layer")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_one_file_names_tracing_and_only_one_boxes_futures() {
    for (module, code) in sources() {
        for (text, only) in [("tracing::", "observe"), ("Box<dyn Future", "backend::erased")] {
            assert!(module == only || !code.contains(text), "{module} names `{text}`; only {only} may");
        }
    }
}

#[test]
fn imports_are_found_wherever_they_stand() {
    let code =
        "use crate::key::LockKey;\n// crate::comment::No\nfn f() -> crate::error::E { $crate::user::g() }";
    assert_eq!(imports(code).collect::<Vec<_>>(), ["key::LockKey", "error::E"]);
}

/// Rows of module paths, in order.
struct Layers(Vec<Vec<String>>);

impl Layers {
    fn of_the_architecture() -> Self {
        let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the architecture page");
        let rows: Vec<Vec<String>> = (0..)
            .map_while(|number| {
                let start = format!("| {number} ");
                let row = page.lines().find(|line| line.starts_with(&start))?;
                Some(row.split('`').skip(1).step_by(2).map(|name| name.replace('/', "::")).collect())
            })
            .collect();
        assert_eq!(rows.len(), 5, "the table of layers has five rows");
        Self(rows)
    }

    /// Row and column of the entry that is the path, or begins it.
    fn place(&self, path: &str) -> Option<(usize, usize)> {
        let begins = |entry: &String| {
            path.strip_prefix(entry.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.0.iter().enumerate().find_map(|(row, entries)| Some((row, entries.iter().position(begins)?)))
    }
}

/// What follows each `crate::` in the code. Lines of comment do not count, nor does `$crate`.
fn imports(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| {
        line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with('$')).map(|(at, text)| {
            let path = &line[at + text.len()..];
            path.split(|letter: char| letter != ':' && letter != '_' && !letter.is_alphanumeric())
                .next()
                .unwrap_or(path)
        })
    })
}

/// Module path and code, without tests, of each file of the runtime.
fn sources() -> Vec<(String, String)> {
    let source = root().join("lockrt/src");
    let mut directories = vec![source.clone()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)
            .expect("the runtime's source")
            .map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                directories.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let code = fs::read_to_string(&entry).expect("a source file");
                let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
                found.push((module(&source, &entry), code));
            }
        }
    }
    assert!(found.len() > 20, "the runtime's source was found");
    found
}

fn module(source: &Path, file: &Path) -> String {
    let path = file.strip_prefix(source).expect("below the source").with_extension("");
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("::")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
