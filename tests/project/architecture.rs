//! Holds the direction of imports: `main, cli → actors → process → {consul, metrics, logging} → config → messages`.
//! Actors meet in `messages`, except the root; their pure files see no library, no system and no other actor.

use std::fs;
use std::path::{Path, PathBuf};

/// Every top-level module with its layer; a file may import its own module and those of lower layers.
const LAYERS: [(&str, u8); 13] = [
    ("http_client", 0),
    ("messages", 0),
    ("printable", 0),
    ("reason", 0),
    ("config", 1),
    ("offload", 1),
    ("dial", 2),
    ("metrics", 2),
    ("logging", 2),
    ("consul", 3),
    ("process", 3), // carries what children write into the log
    ("actors", 4),
    ("cli", 5),
];

/// Files of actors that decide and never act, wherever they are below `src/actors`: `machine.rs`, everything in a
/// folder `machine/`, and these.
const PURE: [&str; 2] = ["machine", "readiness"];

/// Pure files outside `src/actors`, which pure files may import.
const PURE_ELSEWHERE: [&[&str]; 1] = [&["consul", "blocking"]];

/// The seam between engines and machines, which every actor imports.
const SEAM: [&str; 2] = ["actors", "machine"];

/// Who may know other actors: what puts them all together, and the root, which creates and ends jobs and watches.
const ROOTS: [&str; 2] = ["assembly", "pilot"];

struct SourceFile {
    path: PathBuf,
    /// Module path: `actors`, `job`, `machine` for `src/actors/job/machine.rs`.
    module: Vec<String>,
    /// Its text without comments and unit tests.
    code: String,
}

fn source_files() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut directories = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = path.strip_prefix(&root).unwrap().with_extension("");
                let module: Vec<String> =
                    module.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                // `tests.rs` and `tests/` are compiled for tests only.
                if !module.iter().any(|name| name == "tests") {
                    let code = without_comments_and_tests(&fs::read_to_string(&path).unwrap());
                    files.push(SourceFile { path, module, code });
                }
            }
        }
    }
    files
}

fn without_comments_and_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]") {
            // One declaration, as in `mod tests;`, or the tests themselves, which end the file.
            match lines.next() {
                Some(declaration) if declaration.ends_with(';') => continue,
                Some(_) | None => break,
            }
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Every path in the code that begins with `crate` or `super`, as an absolute path within the crate.
fn crate_paths(file: &SourceFile) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (keyword, base) in [("crate::", &[][..]), ("super::", parent(&file.module))] {
        for (at, _) in file.code.match_indices(keyword) {
            let is_word_start =
                !file.code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'));
            if is_word_start {
                expand(base.to_vec(), &file.code[at + keyword.len()..], &mut found);
            }
        }
    }
    found
}

fn parent(module: &[String]) -> &[String] {
    module.split_last().map_or(&[], |(_, parent)| parent)
}

/// Reads one path, or each of `{a, b::{c, d}}`; gives what follows it.
fn expand<'a>(mut prefix: Vec<String>, text: &'a str, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            if rest.is_empty() {
                return rest;
            }
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            let before = rest.len();
            rest = expand(prefix.clone(), rest, found);
            assert!(rest.len() < before, "cannot read the import at {rest:.40}");
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "super" => drop(prefix.pop()),
        "self" | "" => {}
        _ => prefix.push(name.to_owned()),
    }
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(prefix, rest, found);
    }
    found.push(prefix);
    // `as name` and `*` follow an import only inside its braces or at its end.
    let next = rest.find([',', '}', ';', '\n']).unwrap_or(rest.len());
    if rest.starts_with(" as ") || rest.starts_with('*') { &rest[next..] } else { rest }
}

fn layer(module: Option<&String>) -> Option<u8> {
    LAYERS.iter().find_map(|&(name, layer)| (module.is_some_and(|module| module == name)).then_some(layer))
}

fn is_pure(file: &SourceFile) -> bool {
    let is_of_an_actor = file.module.first().is_some_and(|top| top == "actors") && file.module != SEAM;
    (is_of_an_actor && file.module.iter().any(|part| PURE.contains(&part.as_str())))
        || PURE_ELSEWHERE.iter().any(|pure| file.module == *pure)
}

#[test]
fn every_module_has_a_layer() {
    for file in source_files() {
        let top = file.module.first();
        let is_crate_root = top.is_some_and(|name| name == "main" || name == "lib");
        assert!(is_crate_root || layer(top).is_some(), "{} belongs to no layer", file.path.display());
    }
}

#[test]
fn imports_point_one_way() {
    let mut wrong = Vec::new();
    for file in source_files() {
        let Some(own) = layer(file.module.first()) else { continue };
        for path in crate_paths(&file) {
            let Some(imported) = layer(path.first()) else { continue };
            if path.first() != file.module.first() && imported >= own {
                wrong.push(format!("{} imports {}", file.path.display(), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn actors_do_not_import_each_other() {
    let mut wrong = Vec::new();
    for file in source_files() {
        let [top, actor, ..] = file.module.as_slice() else { continue };
        if top != "actors" || ROOTS.contains(&actor.as_str()) {
            continue;
        }
        for path in crate_paths(&file) {
            if let [top, other, ..] = path.as_slice()
                && top == "actors"
                && other != actor
                && !path.starts_with(&SEAM.map(str::to_owned))
            {
                wrong.push(format!("{} imports {}", file.path.display(), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_files_import_only_config_messages_serde_and_std() {
    let mut wrong = Vec::new();
    for file in source_files().iter().filter(|file| is_pure(file)) {
        for path in crate_paths(file) {
            let is_own = path.starts_with(parent(&file.module));
            let is_elsewhere =
                |pure: &&[&str]| path.iter().zip(*pure).filter(|(a, b)| a == b).count() == pure.len();
            let is_pure = path.iter().any(|part| PURE.contains(&part.as_str()))
                || PURE_ELSEWHERE.iter().any(is_elsewhere);
            if !is_own && !is_pure && !path.first().is_some_and(|top| top == "config" || top == "messages") {
                wrong.push(format!("{} imports {}", file.path.display(), path.join("::")));
            }
        }
        for line in file.code.lines().map(str::trim) {
            let import = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("use ");
            let root = import.and_then(|import| import.split([':', ';', ' ']).next());
            let is_child = |root: &str| file.code.contains(&format!("mod {root};"));
            if let Some(root) = root
                && !is_child(root)
                && !["std", "core", "alloc", "serde", "crate", "super", "self"].contains(&root)
            {
                wrong.push(format!("{}: {line}", file.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scanner_sees_every_form_of_import() {
    let code = "use crate::{config::{spec, words::split}, messages::event::Event as E};\n\
                use super::super::trigger::*;\n\
                fn f() -> crate::process::Pid { super::g() }\n\
                // use crate::cli::X;\n\
                #[cfg(test)]\nmod tests;\n\
                use crate::reason::reason;\n\
                #[cfg(test)]\nmod tests {\nuse crate::actors::registry;\n";
    let file = SourceFile {
        path: PathBuf::new(),
        module: ["actors", "job", "lifecycle"].map(str::to_owned).to_vec(),
        code: without_comments_and_tests(code),
    };
    let found: Vec<String> = crate_paths(&file).iter().map(|path| path.join("::")).collect();
    assert_eq!(
        found,
        [
            "config::spec",
            "config::words::split",
            "messages::event::Event",
            "process::Pid",
            "reason::reason",
            "actors::trigger",
            "actors::job::g",
        ]
    );
}
