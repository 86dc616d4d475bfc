//! Every function shape in `tests/tests/cases` compiles with the attribute on it.
//!
//! Each is a crate of its own, so that one that does not compile hides no other.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what cannot be read or started ends the test

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use serde_json::Value;

macro_rules! cases {
    ($($name:ident => $file:literal,)+) => {
        const LISTED: &[&str] = &[$($file),+];
        $(#[test]
        fn $name() {
            compiles($file);
        })+
    };
}

cases! {
    case_01_struct_pattern_with_ref => "sig_01",
    case_02_struct_pattern_in_a_path => "sig_02",
    case_04_tuple_in_a_path => "sig_04",
    case_05_mut_binding_in_json => "sig_05",
    case_07_key_known_in_the_body_only => "sig_07",
    case_08_shared_helper => "sig_08",
    case_09_list_of_keys => "sig_09",
    case_10_method_of_a_newtype => "sig_10",
    case_12_ignored_inside_a_pattern => "sig_12",
    case_14_sixteen_arguments => "sig_14",
    case_15_instrument_reads_an_argument => "sig_15",
    case_16_impl_trait_inside_a_result => "sig_16",
    case_18_result_of_responses => "sig_18",
    case_19_no_return_type => "sig_19",
    case_22_webhook => "sig_22",
    case_23_generic_handler => "sig_23",
    case_24_key_kept_after_the_body => "sig_24",
    case_25_responder => "sig_25",
    case_26_route_macro => "sig_26",
    case_28_handler_that_is_not_send => "sig_28",
    case_30_text_of_the_user => "sig_30",
    case_31_secret_in_the_key => "sig_31",
    case_32_grpc_method => "sig_32",
    case_34_grpc_stream => "sig_34",
    case_35_grpc_stub => "sig_35",
    case_36_job_with_boxed_error => "sig_36",
    case_37_job_by_method => "sig_37",
    case_38_async_trait_with_dyn_argument => "sig_38",
    case_40_error_that_is_not_send => "sig_40",
    case_42_cron_tick => "sig_42",
    case_43_one_round_of_a_loop => "sig_43",
    case_44_never_returns => "sig_44",
    case_45_mut_argument => "sig_45",
    case_48_arc_self_and_bare_alias => "sig_48",
    case_50_async_trait_with_arc_self => "sig_50",
    case_51_reference_to_arc_self => "sig_51",
    case_53_attribute_on_the_receiver => "sig_53",
    case_54_bool => "sig_54",
    case_55_macro_rules => "sig_55",
    case_57_proof_argument => "sig_57",
    case_59_const_generic => "sig_59",
    case_60_raw_identifier => "sig_60",
    case_61_path_like_key => "sig_61",
    case_62_unsafe_function => "sig_62",
    case_64_ref_binding => "sig_64",
    case_65_recursion => "sig_65",
    case_66_mutable_borrow_across_the_wait => "sig_66",
    case_67_shadowed_argument => "sig_67",
    case_69_foreign_caller => "sig_69",
}

#[test]
fn every_case_is_listed() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files, LISTED);
}

#[test]
fn a_case_that_does_not_compile_is_seen() {
    let wrong = "#[lockrt::distributed_lock(key = \"{b}\", ttl_ms = 10)] pub async fn f(a: u8) -> anyhow::Result<()> { Ok(()) }";
    let answer = rustc(wrong, "wrong", "lockrt", &[]);
    assert!(answer.is_err_and(|said| said.contains("no argument is called `b`")));
}

#[test]
fn the_runtime_crate_may_have_another_name() {
    let by_that_name = |argument: &str| {
        format!(
            "#[locks::distributed_lock(key = \"k\", ttl_ms = 10, renew = off, lease = held{argument})]
             pub async fn f() -> Result<(), locks::LockError> {{ held.check() }}"
        )
    };
    rustc(&by_that_name(", crate = ::locks"), "renamed", "locks", &[]).unwrap();
    let forgotten = rustc(&by_that_name(""), "forgotten", "locks", &[]);
    assert!(forgotten.is_err_and(|said| said.contains("lockrt")));
}

/// On a statement an attribute is refused by the compiler itself, unless that is switched on.
#[test]
fn a_closure_is_refused_where_attributes_on_statements_are_switched_on() {
    let source = "#![feature(proc_macro_hygiene, stmt_expr_attributes)]
        pub fn f() { #[lockrt::distributed_lock(key = \"k\", ttl_ms = 10)] let _ = async || 1; }
        pub fn g() { let _ = #[lockrt::distributed_lock(key = \"k\", ttl_ms = 10)] || 1; }";
    let said = rustc(source, "statement", "lockrt", &[]).unwrap_err();
    assert_eq!(said.matches("goes on an `async fn`").count(), 2, "{said}");
}

/// A constant of a type can be looked at where the function is used, and not before.
#[test]
fn a_wrong_time_that_is_a_constant_of_a_type_does_not_become_a_program() {
    let with = |ttl: &str| {
        let source = format!(
            "pub struct A<const N: u64>;
             impl<const N: u64> A<N> {{
                 const TTL: u64 = N;
                 #[lockrt::distributed_lock(key = \"k\", ttl_ms = Self::TTL, renew = auto(max_ms = 60_000))]
                 pub async fn f(&self) -> Result<(), lockrt::LockError> {{ Ok(()) }}
             }}
             pub fn used() {{ drop(A::<{ttl}>.f()) }}"
        );
        compile(&source, "constant", "lockrt", &[], "obj")
    };
    with("30").unwrap();
    for (ttl, sentence) in [
        ("9", "`ttl_ms` must be at least 10"),
        ("10_000_000_000", "at most 31 days"),
        ("29", "at least 30 to be renewed"),
        ("60_001", "must not be below `ttl_ms`"),
    ] {
        assert!(with(ttl).is_err_and(|said| said.contains(sentence)), "{ttl}");
    }
}

/// The whole answers belong to one compiler, see `tests/mistakes`; the sentences and their number to all of them. Where
/// `tests/mistakes` has compared all, one in sixteen is enough to see that this comparison works.
#[test]
fn every_mistake_has_its_own_sentences_and_no_more_errors_on_any_compiler() {
    let mistakes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mistakes/tests/ui");
    let step = if lockrt_mistakes::answers_are_recorded() { 16 } else { 1 };
    let mut compared = 0;
    let mut differ = Vec::new();
    let mut files: Vec<_> = fs::read_dir(mistakes).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in
        files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")).step_by(step)
    {
        let Ok(answer) = fs::read_to_string(file.with_extension("stderr")) else { continue };
        let source = format!("#![allow(warnings)]\n{}", fs::read_to_string(file).unwrap());
        let said = rustc(&source, "mistake", "lockrt", &[]).expect_err("a mistake");
        compared += 1;
        if errors(&said) != errors(&answer) {
            differ.push(format!("{}:\n{said}", file.display()));
        }
    }
    assert!(compared > 0, "no mistake was compared");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// The first line of each error; of those that the compiler words itself, that there is one.
fn errors(answer: &str) -> Vec<&str> {
    let is_ours =
        |line: &str| line.starts_with("error: ") || line.contains("lock") || line.contains("neutral");
    let heads = answer.lines().filter(|line| line.starts_with("error") && !line.contains("aborting due to"));
    let mut heads: Vec<_> = heads.map(|line| if is_ours(line) { line } else { "error" }).collect();
    heads.sort_unstable(); // the compiler may look at the function first
    heads
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases")
}

fn compiles(case: &str) {
    let file = folder().join(case).with_extension("rs");
    let source = fs::read_to_string(&file).unwrap();
    // As a module, since `pub(super)` means nothing at the root of a crate.
    let root = format!("#[path = \"{}\"] mod case;", file.display());
    let mut features: Vec<&[&str]> = vec![&[]];
    if source.contains("feature = ") {
        features.extend([["cloud", "enterprise"].as_slice(), &["client", "v2"]]);
    }
    for features in features {
        if let Err(said) = rustc(&root, case, "lockrt", features) {
            panic!("{case} with features {features:?}:\n{said}");
        }
    }
}

/// Checks a crate that knows the runtime by the name of `lockrt`; warnings are errors, but for those that the bare
/// functions give too.
fn rustc(root: &str, name: &str, lockrt: &str, features: &[&str]) -> Result<(), String> {
    compile(root, name, lockrt, features, "metadata")
}

fn compile(root: &str, name: &str, lockrt: &str, features: &[&str], emit: &str) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if root.starts_with("#![feature(") {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    command.args(["--edition=2024", "--crate-type=lib", "--emit", emit, "--crate-name", name]);
    command.args(["-Dwarnings", "-Adead_code", "-Aunused_assignments", "-Aimproper_ctypes_definitions"]);
    command.args(["-Aunexpected_cfgs", "--out-dir", env!("CARGO_TARGET_TMPDIR")]);
    for feature in features {
        // A function that is left out leaves its imports behind.
        command.arg("-Aunused_imports");
        command.arg("--cfg").arg(format!("feature=\"{feature}\""));
    }
    for (name, file) in dependencies() {
        command.arg("-L").arg(format!("dependency={}", file.parent().unwrap().display()));
        let name = if name == "lockrt" { lockrt } else { &name };
        command.arg("--extern").arg(format!("{name}={}", file.display()));
    }
    let mut child = command.arg("-").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(root.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Where cargo has put each direct dependency of this package. Cargo is asked once for each build of these tests, not in
/// the process of each test.
fn dependencies() -> BTreeMap<String, PathBuf> {
    let this_test = std::env::current_exe().unwrap();
    let built = this_test.metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    let known = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(this_test.file_name().unwrap())
        .with_extension(format!("{}.json", built.as_nanos()));
    if let Ok(found) = fs::read(&known) {
        return serde_json::from_slice(&found).unwrap();
    }
    let found = ask_cargo();
    let part = known.with_extension(std::process::id().to_string());
    fs::write(&part, serde_json::to_vec(&found).unwrap()).unwrap();
    fs::rename(part, known).unwrap();
    found
}

fn ask_cargo() -> BTreeMap<String, PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What these tests were compiled with is compiled already; another choice of features would compile it all anew.
    let chosen: &[&str] = if cfg!(feature = "workspace") {
        &["--workspace", "--all-features"]
    } else {
        &["--package", "lockrt-cases"]
    };
    let output = Command::new(cargo)
        .args(["test", "--no-run", "--message-format=json", "--quiet"])
        .args(chosen)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "the dependencies do not compile");
    let messages = String::from_utf8(output.stdout).unwrap();
    let artifacts = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let direct = direct_dependencies();
    let mut found = BTreeMap::new();
    for artifact in artifacts.filter(|message| message["reason"] == "compiler-artifact") {
        let name = artifact["target"]["name"].as_str().unwrap().replace('-', "_");
        let file = library(&artifact);
        if let Some(file) = file.filter(|_| direct.contains(&name)) {
            let twice = found.insert(name.clone(), file);
            assert_eq!(twice, None, "{name} is there twice");
        }
    }
    assert_eq!(found.len(), direct.len(), "{found:?}");
    found
}

fn direct_dependencies() -> Vec<String> {
    let manifest = include_str!("../Cargo.toml");
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split([' ', '.']).next());
    names.filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// The file of a library that a case can use. The same crate may be there a second time, as what a procedural macro
/// or a build script is made of: those are compiled without debug information.
fn library(artifact: &Value) -> Option<PathBuf> {
    let is_macro = artifact["target"]["kind"] == serde_json::json!(["proc-macro"]);
    let for_build = artifact["profile"]["debuginfo"] == 0 || artifact["profile"]["debuginfo"].is_null();
    let files = artifact["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
    let suffix = |file: &PathBuf| file.extension().is_some_and(|suffix| is_macro || suffix == "rlib");
    files.filter(suffix).find(|_| is_macro || !for_build)
}
