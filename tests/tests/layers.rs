//! A file of the runtime imports from rows above its own, or from files to its left.

#![allow(clippy::unwrap_used)] // a tree that cannot be read ends the test

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The rows of the table in docs/architecture.md, each from left to right.
static ROWS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/architecture.md"));
    let page = page.unwrap();
    let table = page.lines().skip_while(|line| !line.starts_with("| layer |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| files_of(line).collect());
    rows.collect()
});

/// The files that a row of the table names between backticks; `a/{b,c}` is two.
fn files_of(row: &str) -> impl Iterator<Item = String> {
    let quoted = row.split('`').skip(1).step_by(2);
    quoted.flat_map(|file| {
        let (folder, names) = file.split_once("/{").unwrap_or(("", file));
        let names = names.trim_end_matches('}').split(',');
        let paths =
            names.map(|name| if folder.is_empty() { name.into() } else { format!("{folder}/{name}") });
        paths.map(|name| name.replace('/', "::")).collect::<Vec<String>>()
    })
}

fn place(module: &str) -> Option<(usize, usize)> {
    ROWS.iter().enumerate().find_map(|(row, files)| {
        let column = files.iter().position(|file| module == file || inside(module, file))?;
        Some((row, column))
    })
}

fn inside(module: &str, parent: &str) -> bool {
    module.strip_prefix(parent).is_some_and(|rest| rest.starts_with("::"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn module_of(file: &Path, root: &Path) -> String {
    let path = file.strip_prefix(root).unwrap().with_extension("");
    path.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("::")
}

/// The modules that a source names by `crate::`, in code and not in comments.
fn imports(source: &str) -> Vec<String> {
    let code = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    // A path in a macro that others call is theirs.
    let code: Vec<String> = code.map(|line| line.replace("$crate::", "")).collect();
    let named = code.iter().flat_map(|line| line.split("crate::").skip(1).map(path_of));
    named.filter(|path| !path.is_empty()).collect()
}

/// The leading lower-case segments of a path.
fn path_of(rest: &str) -> String {
    let path: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
    let segments = path.split("::").take_while(|segment| segment.starts_with(char::is_lowercase));
    segments.collect::<Vec<_>>().join("::")
}

/// What is wrong with `module` importing `imported`.
fn fault(module: &str, imported: &str) -> Option<String> {
    // Files of one folder are one noun.
    let own = place(module)?;
    let Some(theirs) = place(imported).or_else(|| place(imported.rsplit_once("::")?.0)) else {
        return Some(format!("{module} imports {imported}, which stands in no row"));
    };
    (theirs.0 > own.0 || (theirs.0 == own.0 && theirs.1 > own.1))
        .then(|| format!("{module} imports {imported}, which stands below or to its right"))
}

#[test]
fn every_file_stands_in_a_row_and_imports_upward_or_leftward() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lockrt/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30, "the sources have moved");
    let mut faults = Vec::new();
    for file in files {
        let module = module_of(&file, &root);
        if matches!(module.as_str(), "protocol" | "backend" | "lib") {
            continue;
        }
        if place(&module).is_none() {
            faults.push(format!("{module} stands in no row"));
        }
        let source = fs::read_to_string(&file).unwrap();
        faults.extend(imports(&source).iter().filter_map(|imported| fault(&module, imported)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_page_lists_the_rows() {
    assert_eq!(ROWS.len(), 5);
    assert_eq!(
        ROWS[1],
        [
            "protocol::lease",
            "protocol::waiting",
            "protocol::freeing",
            "protocol::kept",
            "protocol::by_id",
            "protocol::due",
            "protocol::keeping",
            "protocol::simulation"
        ]
    );
    assert!(ROWS.iter().all(|row| row.len() > 3));
}

#[test]
fn an_import_in_the_wrong_direction_is_seen() {
    assert!(fault("key", "error").is_some(), "rightward");
    assert!(fault("protocol::lease", "keeper").is_some(), "downward");
    assert!(fault("backend::redis::link", "observe").is_some(), "downward, from a folder");
    assert!(fault("keeper::driver", "observe").is_none());
    assert!(fault("lease", "util").is_some(), "unknown");
    assert_eq!(
        imports("use crate::key::LockKey; // crate::guard\nlet x = crate::error::Outcome::Unknown;"),
        ["key", "error"]
    );
}

#[test]
fn only_observe_names_tracing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lockrt/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    // The suite listens to what is told.
    let may = |file: &Path| file.ends_with("observe.rs") || file.ends_with("conformance/lock/telling.rs");
    for file in files.iter().filter(|file| !may(file)) {
        let source = fs::read_to_string(file).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        assert!(!code.collect::<String>().contains("tracing::"), "{}", file.display());
    }
}
