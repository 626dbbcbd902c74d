//! Holds the direction of imports: from the layers with high numbers to those with low ones.
//! Actors meet in `messages`, except the root; their pure files see no library, no system and no other actor.

use std::fs;
use std::path::{Path, PathBuf};

/// Every top-level module with its layer; a file may import its own module and those of lower layers.
const LAYERS: [(&str, u8); 18] = [
    ("http_client", 0),
    ("masking", 0),
    ("messages", 1),
    ("printable", 0),
    ("reason", 0),
    ("config", 2),
    ("offload", 2),
    ("dial", 3),
    ("metrics", 3),
    ("logging", 3),
    ("recording", 3),
    ("explain", 4),
    ("graph", 4),
    ("consul", 4),
    ("process", 4), // carries what children write into the log
    ("actors", 5),
    ("replay", 6),
    ("cli", 7),
];

/// Files below `src/actors` that decide and never act: `machine.rs`, and everything in a folder `machine/`.
const PURE: &str = "machine";

/// Pure files outside `src/actors`, which machines may import.
const PURE_ELSEWHERE: [&[&str]; 1] = [&["consul", "blocking"]];

/// Parts of the configuration that machines may use: validated data, and pure functions of a time.
const PURE_DATA: [[&str; 2]; 3] = [["config", "spec"], ["config", "duration"], ["config", "schedule"]];

/// What machines may use of the standard library: data, and nothing that reads a clock, a file or a lock.
const PURE_STD: [&str; 12] = [
    "cmp",
    "collections",
    "fmt",
    "iter",
    "mem",
    "net::IpAddr",
    "ops",
    "rc::Rc",
    "slice",
    "str",
    "sync::Arc",
    "time::Duration",
];

/// Files whose first lines call them pure may use none of these.
const OUTSIDE: [&str; 17] = [
    "std::env",
    "std::fs",
    "std::os::fd",
    "std::os::linux",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::os::unix::process",
    "std::process",
    "std::thread",
    "std::net::Tcp",
    "std::net::Udp",
    "tokio::",
    "nix::",
    "libc::",
    "actix::",
    "actix_rt::",
    "awc::",
];

/// Where `unsafe` may be.
const UNSAFE: [&str; 10] = [
    "logging/child.rs",
    "process/execution.rs",
    "process/group.rs",
    "process/image.rs",
    "process/init.rs",
    "process/notify.rs",
    "process/signals.rs",
    "process/spawn.rs",
    "process/wait.rs",
    "process/wall_clock.rs",
];

/// Every actor may import these: the seam between engines and machines, and the tasks that engines wait for.
const SHARED: [[&str; 2]; 2] = [["actors", "machine"], ["actors", "task"]];

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
            // To the end of the item: `mod tests;`, or a block whose last line begins with its bracket.
            let is_end = |line: &&str| line.ends_with(';') && !line.starts_with(' ') || line.starts_with('}');
            let _ = lines.by_ref().find(is_end);
            continue;
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
        for at in word_starts(&file.code, keyword) {
            expand(base.to_vec(), &file.code[at + keyword.len()..], &mut found);
        }
    }
    found
}

/// Every path in the code that begins with `std`, without that word.
fn std_paths(file: &SourceFile) -> Vec<String> {
    let mut found = Vec::new();
    for at in word_starts(&file.code, "std::") {
        expand(Vec::new(), &file.code[at + "std::".len()..], &mut found);
    }
    found.iter().map(|path| path.join("::")).collect()
}

/// The first word of every path in the code: `tokio` in `tokio::time::sleep`.
fn path_roots(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let root = |(at, _): (usize, &str)| {
        let before = &code[..at];
        let start = before.rfind(|c| !is_name(c)).map_or(0, |other| other + 1);
        let is_generic = code[at..].starts_with("::<");
        (!is_generic && !before[..start].ends_with("::")).then(|| &before[start..])
    };
    code.match_indices("::").filter_map(root).filter(|name| !name.is_empty()).collect()
}

fn word_starts<'a>(code: &'a str, keyword: &'a str) -> impl Iterator<Item = usize> + 'a {
    let continues =
        |at: usize| code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'));
    code.match_indices(keyword).map(|(at, _)| at).filter(move |at| !continues(*at))
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
    let is_of_an_actor = file.module.first().is_some_and(|top| top == "actors")
        && !SHARED.iter().any(|shared| file.module == *shared);
    (is_of_an_actor && file.module.iter().any(|part| part == PURE))
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
                && !SHARED.iter().any(|shared| path.starts_with(&shared.map(str::to_owned)))
            {
                wrong.push(format!("{} imports {}", file.path.display(), path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn machines_see_only_config_messages_serde_and_plain_data() {
    let mut wrong = Vec::new();
    for file in source_files().iter().filter(|file| is_pure(file)) {
        for path in crate_paths(file) {
            let is_own = path.starts_with(parent(&file.module));
            let is_elsewhere =
                |pure: &&[&str]| path.iter().zip(*pure).filter(|(a, b)| a == b).count() == pure.len();
            let is_pure = path.iter().any(|part| part == PURE) || PURE_ELSEWHERE.iter().any(is_elsewhere);
            let is_data = PURE_DATA.iter().any(|data| path.starts_with(&data.map(str::to_owned)))
                || path.first().is_some_and(|top| top == "messages");
            if !is_own && !is_pure && !is_data {
                wrong.push(format!("{} uses {}", file.path.display(), path.join("::")));
            }
        }
        for path in std_paths(file) {
            if !PURE_STD.iter().any(|allowed| path == *allowed || path.starts_with(&format!("{allowed}::"))) {
                wrong.push(format!("{} uses std::{path}", file.path.display()));
            }
        }
        for root in path_roots(&file.code) {
            let is_type = root.starts_with(|c: char| c.is_uppercase()) || root.starts_with(char::is_numeric);
            let is_number = ["u8", "u16", "u32", "u64", "i32", "i64", "usize", "f64", "str"].contains(&root);
            let is_language = ["std", "serde", "crate", "super", "self"].contains(&root);
            let is_module = file.code.contains(&format!("mod {root};"))
                || word_starts(&file.code, "use ").any(|at| names_in_use(&file.code[at..]).contains(&root));
            if !is_type && !is_number && !is_language && !is_module {
                wrong.push(format!("{} uses {root}::", file.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names that a `use` brings, and those of the path to them.
fn names_in_use(statement: &str) -> Vec<&str> {
    let end = statement.find(';').unwrap_or(statement.len());
    let names = statement[..end].split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_own = ["crate::", "super::", "self::", "std::"]
        .iter()
        .any(|own| statement["use ".len()..].starts_with(own));
    names.filter(|_| is_own).collect()
}

#[test]
fn what_calls_itself_pure_does_not_see_the_outside_world() {
    let is_said_pure = |file: &&SourceFile| {
        let text = fs::read_to_string(&file.path).unwrap();
        text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("Pure"))
    };
    let files = source_files();
    let said_pure: Vec<&SourceFile> = files.iter().filter(is_said_pure).collect();
    assert!(said_pure.len() > 30, "{} files", said_pure.len());
    let mut wrong = Vec::new();
    for file in said_pure {
        let used = std_paths(file).into_iter().map(|path| format!("std::{path}"));
        let used = used.chain(path_roots(&file.code).into_iter().map(|root| format!("{root}::")));
        let is_outside = |path: &String| OUTSIDE.iter().any(|outside| path.starts_with(outside));
        wrong.extend(used.filter(is_outside).map(|path| format!("{} uses {path}", file.path.display())));
        if file.code.contains("::now()") {
            wrong.push(format!("{} reads a clock", file.path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn machines_have_no_hash_tables() {
    // Their order is another one in each run, and so would be the actions of a machine that goes through one.
    for file in source_files().iter().filter(|file| is_pure(file)) {
        let found = ["HashMap", "HashSet"].iter().find(|table| file.code.contains(**table));
        assert_eq!(found, None, "{}", file.path.display());
    }
}

#[test]
fn timers_and_futures_are_cancelled_as_tasks() {
    // A future that `cancel_future` cancels may still run once: see `src/actors/task.rs`.
    let cancels = |file: &&SourceFile| file.code.contains("cancel_future");
    let found: Vec<Vec<String>> =
        source_files().iter().filter(cancels).map(|file| file.module.clone()).collect();
    assert_eq!(found, [["actors", "task"]]);
}

#[test]
fn every_actor_with_decisions_has_a_machine() {
    let files = source_files();
    let has = |module: &[&str]| files.iter().any(|file| file.module == module);
    for actor in ["consul_agent", "health_check", "job", "pilot", "reaper", "watch"] {
        assert!(has(&["actors", actor]) && has(&["actors", actor, PURE]), "{actor}");
    }
}

#[test]
fn unsafe_is_where_the_list_says_and_nowhere_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let is_unsafe = |file: &SourceFile| word_starts(&file.code, "unsafe ").next().is_some();
    let mut found: Vec<String> = source_files()
        .iter()
        .filter(|file| is_unsafe(file))
        .map(|file| file.path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, UNSAFE);
}

#[test]
fn the_scanner_sees_every_form_of_import() {
    let code = "use crate::{config::{spec, words::split}, messages::event::Event as E};\n\
                use super::super::trigger::*;\n\
                fn f() -> crate::process::Pid { super::g() }\n\
                // use crate::cli::X;\n\
                #[cfg(test)]\nmod tests;\n\
                #[cfg(test)]\nimpl X {\n    use crate::cli::Y;\n}\n\
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

#[test]
fn the_scanner_sees_what_is_used_without_an_import() {
    let code =
        "use crate::messages::job;\nfn f() { tokio::spawn(std::fs::read(x)); let a: Vec::<job::Job>; }\n";
    let file = SourceFile { path: PathBuf::new(), module: vec![], code: code.to_owned() };
    assert_eq!(std_paths(&file), ["fs::read"]);
    assert_eq!(path_roots(code), ["crate", "tokio", "std", "job"]);
    assert_eq!(names_in_use(code), ["use", "crate", "", "messages", "", "job"]);
    assert!(names_in_use("use tokio::time;").is_empty());
}
