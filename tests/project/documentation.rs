//! The manual: its links lead somewhere, its configurations load, its reference is what the program's schema says,
//! and everything that a user can write, call, scrape or wait for is in it. `UPDATE_DOCS=1` rewrites the reference.

mod reference;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support;
use crate::support::needs::has_programs;
use crate::support::ports::free_port;
use crate::support::{Exit, Setup};
use containerpilot::config::interfaces::InterfaceAddress;
use containerpilot::config::{System, load_text};
use containerpilot::messages::event::EventCode;
use containerpilot::messages::job::Phase;

const BEGIN: &str = "<!-- from the schema: UPDATE_DOCS=1 cargo test --test project documentation -->\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page, by its path from the root.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "CHANGELOG.md".to_owned()];
    for folder in ["docs", "examples"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    pages.sort();
    pages
}

fn said(arguments: &[&str]) -> String {
    let output = Command::new(support::program())
        .args(arguments)
        .env_remove("CONTAINERPILOT")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A page without its code blocks, and the blocks: language and text.
fn parts(page: &str) -> (String, Vec<(String, String)>) {
    let (mut prose, mut blocks) = (String::new(), Vec::new());
    let mut block: Option<(String, String)> = None;
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(language)) => block = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(block.take()),
            (Some((_, text)), None) => text.push_str(&format!("{line}\n")),
            (None, None) => prose.push_str(&format!("{line}\n")),
        }
    }
    assert!(block.is_none(), "a code block is not closed");
    (prose, blocks)
}

fn anchors(page: &str) -> HashSet<String> {
    let (prose, _) = parts(page);
    let mut slugs = Vec::new();
    let mut anchors = HashSet::new();
    for heading in prose.lines().filter(|line| line.starts_with('#')) {
        let slug = reference::slug(heading.trim_start_matches('#').trim());
        anchors.insert(reference::unique(slug.clone(), &slugs));
        slugs.push(slug);
    }
    anchors
}

fn links(page: &str) -> Vec<String> {
    let (prose, _) = parts(page);
    let ends = prose.match_indices("](");
    ends.filter_map(|(at, _)| Some(prose[at + 2..].split_once(')')?.0.to_owned())).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page).parent().unwrap();
            let target = if file.is_empty() { PathBuf::from(&page) } else { folder.join(file) };
            let target = root().join(target);
            let leads = target.exists()
                && (anchor.is_empty() || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor));
            if !leads {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(count > 50, "{count}");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_file_that_a_page_names_exists() {
    let folders = ["src/", "tests/", "docs/", "examples/", "scripts/"];
    let mut missing = Vec::new();
    for page in pages().into_iter().filter(|page| page != "CHANGELOG.md") {
        let (prose, _) = parts(&read(&page));
        let named = prose.split('`').skip(1).step_by(2).filter(|name| !name.contains([' ', '*', '{']));
        let named = named.filter(|name| folders.iter().any(|folder| name.starts_with(folder)));
        let named = named.filter(|name| !root().join(name).exists());
        missing.extend(named.map(|name| format!("{page}: {name}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_page_can_be_reached_from_the_readme() {
    let mut reached = BTreeSet::from(["README.md".to_owned()]);
    let mut open = vec!["README.md".to_owned()];
    while let Some(page) = open.pop() {
        for link in links(&read(&page)).iter().filter(|link| !link.contains("://")) {
            let file = link.split('#').next().unwrap();
            let folder = Path::new(&page).parent().unwrap();
            let path = root().join(folder).join(file).canonicalize().unwrap_or_default();
            let Ok(path) = path.strip_prefix(root().canonicalize().unwrap()) else { continue };
            // A folder shows its own page.
            let path = if root().join(path).is_dir() { path.join("README.md") } else { path.to_owned() };
            let path = path.to_str().unwrap().to_owned();
            if path.ends_with(".md") && root().join(&path).exists() && reached.insert(path.clone()) {
                open.push(path);
            }
        }
    }
    let lost: Vec<String> = pages().into_iter().filter(|page| !reached.contains(page)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// A machine with the interface that the pages use.
fn machine() -> System {
    let address = InterfaceAddress { interface: "eth0".into(), address: "192.0.2.10".parse().unwrap() };
    System { addresses: vec![address].into(), ..System::default() }
}

/// A block is a configuration, some of its top-level keys, or some keys of a job.
fn whole(block: &str) -> String {
    const TOP: [&str; 10] = [
        "consul:",
        "logging:",
        "jobs:",
        "coprocesses:",
        "watches:",
        "control:",
        "telemetry:",
        "stopTimeout:",
        "shutdownSignals:",
        "env:",
    ];
    let first = block.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("//"));
    let first = first.unwrap_or_default();
    if first.starts_with('{') {
        block.to_owned()
    } else if TOP.iter().any(|key| first.starts_with(key)) {
        format!("{{ {block} }}")
    } else {
        let has = |key: &str| block.lines().any(|line| line.starts_with(key));
        let exec = if has("exec:") { "" } else { "exec: 'true'," };
        let name = if has("name:") { "" } else { "name: 'app'," };
        format!("{{ jobs: [{{ {name} {exec} {block} }}] }}")
    }
}

#[test]
fn every_configuration_in_the_pages_loads() {
    let mut count = 0;
    for page in pages() {
        for (language, block) in parts(&read(&page)).1 {
            if language != "json5" {
                continue;
            }
            count += 1;
            let text = whole(&block);
            if let Err(report) = load_text(&page, &text, &BTreeMap::new(), &machine()) {
                panic!("{page}: {}\n{text}", report.render(false));
            }
        }
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn the_reference_is_what_the_schema_says() {
    let path = "docs/configuration.md";
    let page = read(path);
    let schema = serde_json::from_str(&said(&["schema"])).unwrap();
    let (head, _) = page.split_once(BEGIN).expect("the line that begins the generated part");
    let expected = format!("{head}{BEGIN}\n{}", reference::render(&schema));
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(root().join(path), &expected).unwrap();
    } else if page != expected {
        panic!(
            "{path} is not what the schema says: run `UPDATE_DOCS=1 cargo test --test project documentation`"
        );
    }
}

/// Fails with the names that a page does not have between backticks, alone or as part of something.
fn assert_documented(page: &str, names: impl IntoIterator<Item = String>) {
    let (prose, blocks) = parts(&read(page));
    let mut code: Vec<String> = prose.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    code.extend(blocks.into_iter().map(|(_, text)| text));
    let names: BTreeSet<String> = names.into_iter().collect();
    assert!(!names.is_empty(), "{page}");
    let missing: Vec<&String> =
        names.iter().filter(|name| !code.iter().any(|code| has_word(code, name))).collect();
    assert!(missing.is_empty(), "{page} says nothing about {missing:?}");
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

/// What stands between two marks in a source file, every time.
fn found_in(path: &str, before: &str, after: char) -> Vec<String> {
    let text = read(path);
    let starts = text.match_indices(before).map(|(at, _)| at + before.len()).collect::<Vec<_>>();
    starts.into_iter().filter_map(|at| Some(text[at..].split_once(after)?.0.to_owned())).collect()
}

#[test]
fn every_endpoint_is_documented() {
    let plain = |path: String| path.replace("{name:.+}", "NAME");
    let control = found_in("src/actors/web_server/control.rs", "resource(\"", '"');
    assert!(control.len() >= 13, "{control:?}");
    assert_documented("docs/control-api.md", control.into_iter().map(plain));
    let telemetry = found_in("src/actors/web_server/telemetry.rs", "resource(\"", '"');
    assert!(telemetry.len() >= 4, "{telemetry:?}");
    assert_documented("docs/telemetry.md", telemetry);
}

#[test]
fn every_metric_is_documented() {
    let text = read("src/config/series.rs");
    let (_, after) = text.split_once("const OWN_NAMES").unwrap();
    let (names, _) = after.split_once("];").unwrap();
    let names: Vec<String> = names.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() >= 19, "{names:?}");
    assert_documented("docs/telemetry.md", names);
}

#[test]
fn every_event_is_documented_with_both_of_its_names() {
    let names = EventCode::ALL.iter().map(|code| code.config_name().to_owned());
    assert_documented("docs/events.md", names);
    assert_documented("docs/telemetry.md", EventCode::ALL.iter().map(|code| code.metric_name().to_owned()));
}

#[test]
fn every_state_of_a_job_is_documented() {
    assert_documented("docs/lifecycle.md", Phase::ALL.iter().map(|phase| phase.name().to_owned()));
}

/// The long flags that a help text lists.
fn flags(help: &str) -> Vec<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let flags = lines.filter_map(|line| line.split([' ', ',', '<']).find(|word| word.starts_with("--")));
    flags.map(|flag| flag.trim_start_matches('-').to_owned()).filter(|flag| flag != "help").collect()
}

#[test]
fn every_command_and_flag_is_documented() {
    let help = said(&["--help"]);
    let (_, after) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = after.split_once("\n\n").unwrap();
    let commands = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands: Vec<&str> = commands.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    let mut wanted: Vec<String> = flags(&help).into_iter().map(|flag| format!("-{flag}")).collect();
    for command in commands {
        wanted.push(command.to_owned());
        if command != "help" {
            wanted.extend(flags(&said(&["help", command])).into_iter().map(|flag| format!("-{flag}")));
        }
    }
    assert_documented("docs/command-line.md", wanted);
}

#[test]
fn every_environment_variable_is_documented() {
    let consul = found_in("src/config/validate/consul.rs", "\"CONSUL_", '"');
    let consul = consul.into_iter().map(|name| format!("CONSUL_{name}"));
    assert_documented("docs/discovery.md", consul);
    let own = found_in("src/process/environment.rs", "from(\"CONTAINERPILOT", '"');
    let told = found_in("src/process/environment.rs", "new(\"CONTAINERPILOT", '"');
    let own = own.into_iter().chain(told).map(|name| format!("CONTAINERPILOT{name}"));
    assert_documented(
        "docs/lifecycle.md",
        own.chain(["CONTAINERPILOT_JOB_PID".into(), "CONTAINERPILOT_JOB_IP".into()]),
    );
}

#[test]
fn every_function_of_templates_is_documented() {
    let text = read("src/config/template/functions.rs");
    let (_, after) = text.split_once("static FUNCTIONS").unwrap();
    let (table, _) = after.split_once("];").unwrap();
    let names: Vec<String> = table.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() >= 26, "{names:?}");
    assert_documented("docs/configuration.md", names);
}

/// What the README shows, in a folder and on a port of its own.
#[test]
fn the_configuration_in_the_readme_does_what_it_says() {
    if !has_programs(&["python3"]) {
        return;
    }
    let (_, blocks) = parts(&read("README.md"));
    let (_, text) = blocks.iter().find(|(language, _)| language == "json5").unwrap();
    assert!(text.lines().count() <= 20);
    let text =
        text.replace("/tmp/www", "{dir}/www").replace("/tmp/containerpilot.socket", "{dir}/control.socket");
    let logging = "logging: { format: 'json', level: 'DEBUG' }, jobs: [";
    let text = text.replacen("jobs: [", logging, 1);
    let pilot = Setup::new().config(&text).env("PORT", &free_port().to_string()).start();
    pilot.wait_for_event("visitor exitSuccess");
    assert_eq!(pilot.lines_of("visitor"), ["the page is up"]);
    pilot.assert_order(&["page exitSuccess", "web healthy", "visitor exitSuccess"]);
    assert!(pilot.path("www/index.html").exists());
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert!(!pilot.path("www").exists());
}

#[test]
fn the_report_in_the_readme_is_what_check_says() {
    let (_, blocks) = parts(&read("README.md"));
    let (_, text) = blocks.iter().find(|(language, _)| language == "json5").unwrap();
    let (_, report) = blocks.iter().find(|(_, text)| text.starts_with("error[")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("web.json5"), text.replacen("exitSuccess", "exitSucess", 1)).unwrap();
    let mut check = Command::new(support::program());
    let output = check.args(["check", "-config", "web.json5"]).current_dir(&directory).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(report.as_str()), "{said}");
}
