//! The whole program simulated from seeds: all actors with their machines and engines over a simulated kernel, Consul, log
//! and clock, with every kind of fault. What must hold is checked after every step, and each seed is run twice.
//!
//! `SEED=1234 cargo test --lib simulation` tells the story of one seed, and `STORY=FILE` one that was written down;
//! `SEEDS=100000` tries so many, from `FIRST_SEED` on.
//! A story that breaks a rule is shrunk, told, and written to `target/simulation/`; kept in `tests/simulation/stories/`,
//! it is a test.

mod consul;
mod generate;
mod journal;
mod kernel;
mod rules;
mod run;
mod shrink;
mod story;
mod tell;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use journal::Broken;
use run::{Outcome, run, run_recorded};
use story::Story;

/// How many seeds every `cargo test` tries.
const SEEDS: u64 = 2000;
const TELL_EVERY: Duration = Duration::from_secs(30);
/// Every so many seeds a story is recorded, and its record replayed.
const RECORD_EVERY: u64 = 50;
const NOT_THE_SAME: &str = "the same seed makes the same run";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn read(story: &Path) -> Story {
    serde_json::from_str(&fs::read_to_string(story).unwrap()).unwrap()
}

/// Runs a story twice: both runs are the same.
fn run_twice(story: &Story) -> Outcome {
    let mut outcome = run(story);
    if outcome.broken.is_some() {
        return outcome;
    }
    let again = run(story);
    if again.trace != outcome.trace {
        let length = outcome.trace.len().min(again.trace.len());
        let place = (0..length).find(|&place| outcome.trace[place] != again.trace[place]).unwrap_or(length);
        let how = format!("{:?} or {:?}", outcome.trace.get(place), again.trace.get(place));
        outcome.broken = Some(Broken { rule: NOT_THE_SAME, how });
    }
    if outcome.broken.is_none() && story.seed.is_multiple_of(RECORD_EVERY) {
        outcome.broken = replay(story, &outcome);
    }
    outcome
}

/// Runs a story once more, with a record: nothing changes by that, and the record replays to the same actions.
fn replay(story: &Story, outcome: &Outcome) -> Option<Broken> {
    let (recorded, record) = run_recorded(story);
    if recorded.trace != outcome.trace {
        let how = "it differs when it is recorded".to_owned();
        return Some(Broken { rule: NOT_THE_SAME, how });
    }
    let failure = crate::replay::run(&record[..]).err()?;
    Some(Broken { rule: "a record replays to the same actions", how: failure.to_string() })
}

/// Shrinks a story that breaks a rule, writes it down and tells it.
fn report(story: Story, broken: &Broken) -> String {
    let breaks = |story: &Story| run_twice(story).broken.is_some_and(|found| found.rule == broken.rule);
    let small = shrink::shrink(story, breaks);
    let file = path("target/simulation").join(format!("{}.json", small.seed));
    let written = fs::create_dir_all(path("target/simulation"))
        .and_then(|()| fs::write(&file, serde_json::to_string_pretty(&small).unwrap_or_default()));
    let told = tell::tell(&small, &run_twice(&small));
    format!(
        "{told}shrunk to {} jobs and {} steps: {} ({written:?})",
        small.program.jobs.len(),
        small.steps.len(),
        file.display()
    )
}

/// Tries seeds on all cores until one breaks a rule; returns the first of them.
fn search(first: u64, number: u64) -> Option<(Story, Broken)> {
    let (next, failures) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let began = Instant::now();
    let told = Mutex::new(began);
    let search = || {
        while failures.lock().unwrap().is_empty() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + number {
                return;
            }
            let story = generate::story(seed);
            if let Some(broken) = run_twice(&story).broken {
                failures.lock().unwrap().push((story, broken));
            }
            let mut told = told.lock().unwrap();
            if told.elapsed() > TELL_EVERY {
                *told = Instant::now();
                let done = seed + 1 - first;
                let speed = done as f64 / began.elapsed().as_secs_f64();
                eprintln!("simulation: {done} seeds, {speed:.0} a second");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(search);
        }
    });
    let done = next.load(Ordering::Relaxed).min(first + number) - first;
    eprintln!("simulation: {done} seeds in {:.1} s", began.elapsed().as_secs_f64());
    failures.into_inner().unwrap().into_iter().min_by_key(|(story, _)| story.seed)
}

#[test]
fn whatever_happens_the_program_keeps_its_rules() {
    let kept = std::env::var("STORY").ok().map(|file| read(Path::new(&file)));
    if let Some(story) = kept.or_else(|| number("SEED").map(generate::story)) {
        let outcome = run_twice(&story);
        eprintln!("{}", tell::tell(&story, &outcome));
        let file = path("target/simulation").join(format!("{}.record", story.seed));
        let written = fs::create_dir_all(path("target/simulation"))
            .and_then(|()| fs::write(&file, run_recorded(&story).1));
        eprintln!("the record of its machines: {} ({written:?})", file.display());
        return assert_eq!(outcome.broken, None);
    }
    let (first, seeds) = (number("FIRST_SEED").unwrap_or(0), number("SEEDS").unwrap_or(SEEDS));
    if let Some((story, broken)) = search(first, seeds) {
        let seed = story.seed;
        eprintln!("seed {seed} breaks: {}: {}", broken.rule, broken.how);
        if number("SHRINK") != Some(0) {
            eprintln!("{}", report(story, &broken));
        }
        panic!("seed {seed} breaks the rule {:?}", broken.rule);
    }
}

#[test]
fn stories_that_once_broke_a_rule_keep_all() {
    for entry in fs::read_dir(path("tests/simulation/stories")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let story = read(&file);
        let outcome = run_twice(&story);
        let told = || format!("{}:\n{}", file.display(), tell::tell(&story, &outcome));
        assert!(outcome.broken.is_none(), "{}", told());
    }
}
