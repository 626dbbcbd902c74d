//! Tells the program which git commit it is built from, and the linker how to keep it small. Reads git's files rather than
//! calling git: the program may be absent, and it refuses to answer in a directory that another user owns, as in many builds.
//! CONTAINERPILOT_GIT_HASH in the environment takes precedence, for builds without git's files and for tests that need not
//! be compiled again after each commit.
#![allow(clippy::print_stdout, reason = "a build script talks to cargo through stdout")]

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CONTAINERPILOT_GIT_HASH");
    let hash = env::var("CONTAINERPILOT_GIT_HASH").ok();
    let hash = hash.or_else(|| git_directory(Path::new(".git")).and_then(|git| head_commit(&git)));
    let short = hash.as_deref().and_then(|hash| hash.get(..7)).unwrap_or("unknown");
    println!("cargo::rustc-env=CONTAINERPILOT_GIT_HASH={short}");
    if is("TARGET_ENV", "musl") && is("TARGET_ARCH", "x86_64") {
        // 180 kB less in the file and in memory. GNU ld can do this for other architectures since version 2.43 only, and glibc
        // would refuse to start such a program where it is older than 2.36.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether a property of the target has this value.
fn is(property: &str, value: &str) -> bool {
    env::var(format!("CARGO_CFG_{property}")).is_ok_and(|found| found == value)
}

/// `.git` itself, or in a linked worktree the directory that it names.
fn git_directory(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let text = fs::read_to_string(path).ok()?;
    Some(PathBuf::from(text.strip_prefix("gitdir:")?.trim()))
}

fn head_commit(git: &Path) -> Option<String> {
    let head = read_and_watch(&git.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref:").map(str::trim) else {
        return Some(head);
    };
    // A linked worktree keeps its HEAD to itself and shares the branches.
    let common =
        fs::read_to_string(git.join("commondir")).map_or(git.to_owned(), |path| git.join(path.trim()));
    read_and_watch(&common.join(reference)).or_else(|| packed(&common, reference))
}

fn packed(common: &Path, reference: &str) -> Option<String> {
    read_and_watch(&common.join("packed-refs"))?.lines().find_map(|line| {
        let (hash, name) = line.split_once(' ')?;
        (name == reference).then(|| hash.to_owned())
    })
}

/// Cargo builds anew at every call if it is told to watch a file that does not exist.
fn read_and_watch(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}
