#!/usr/bin/env python3
"""Mutation testing: would the tests notice a bug?

cargo-mutants lists the mutants of the machines and of `config`, `logging` and `process`, thousands of them. To compile the
program for each takes days. So all of them are planted in one program (plant.py), which is compiled once; MUTANT=NUMBER
chooses one when it runs. Every test is run alone first, to learn which mutants it reaches; then each mutant is run against the
tests that reach it, the nearest first, until one fails: all mutants against the unit tests, then what is left against some
black-box tests. When tests were added, `plant`, `compile`, `cover` and `try` again run only these against what was missed.

  run.py              all that follows, one after the other; each goes on where it was interrupted
  run.py plant        list the mutants, plant them in a copy of the sources, leave out those that do not compile
  run.py compile      the unit tests and the black-box tests of that copy
  run.py cover [KIND] learn which tests reach which mutants: containerpilot (the unit tests), process, project or blackbox
  run.py try [REGEX]  try mutants, those in files that match
  run.py report       the score, and the mutants that no test noticed

Everything is in target/mutants. It needs cargo-mutants, and tree-sitter and tree-sitter-rust of PyPI."""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from plant import PARSER, Planter

PROJECT = pathlib.Path(__file__).resolve().parents[2]
WORK = PROJECT / "target" / "mutants"
COPY = WORK / "copy"
CARGO = os.environ.get("CARGO", "cargo")
WORKERS = int(os.environ.get("WORKERS", os.cpu_count() or 1))
FILES = ["src/actors/machine.rs", "src/actors/*/machine.rs", "src/actors/*/machine/**/*.rs"] + [
    f"src/{name}{rest}" for name in ("config", "logging", "process") for rest in (".rs", "/**/*.rs")
]
AREAS = {"machines": "src/actors/", "config": "src/config", "logging": "src/logging", "process": "src/process"}
# Tests that take longer are left out, unless they are of the same module; so are the many seeds of the simulation.
LONGEST_TEST = 4
LONGEST_NEAR_TEST = 25
# Tests per mutant: the nearest of those in our own process, and the black-box tests with the most similar names.
MOST_NEAR = 60
MOST_BLACK_BOX = 40
# A mutant may signal more processes than it should, so it sees none but its own. A shell is process 1.
ISOLATED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", 'setsid --wait "$0" "$@"; exit $?']
ENVIRONMENT = {"RUST_BACKTRACE": "0", "SEEDS": "150", "PROPTEST_CASES": "64", "CI": "true"}

CHOICE = """//! Chooses the mutant.
#![allow(missing_docs)]
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ACTIVE: LazyLock<u32> = LazyLock::new(|| {
    std::env::var("MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX)
});
static COVER: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANT_COVER").ok());
static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

#[inline(never)]
pub fn active(site: u32) -> u32 {
    if let (Some(path), Some(seen)) = (COVER.as_ref(), SEEN.get(site as usize)) {
        if !seen.swap(true, Ordering::Relaxed) {
            if let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path) {
                let _ = file.write_all(format!("{site}\\n").as_bytes());
            }
        }
    }
    *ACTIVE
}
"""


def load(name, default=None):
    path = WORK / f"{name}.json"
    if default is not None and not path.exists():
        return default
    return json.loads(path.read_text())


def save(name, value):
    path = WORK / f"{name}.json"
    path.with_suffix(".new").write_text(json.dumps(value))
    path.with_suffix(".new").replace(path)


def cargo(*arguments):
    environment = dict(os.environ, CARGO_TARGET_DIR=str(WORK / "target"), RUSTFLAGS="--cap-lints allow")
    # The tests run thousands of times.
    environment.update(CARGO_PROFILE_DEV_OPT_LEVEL="1", CARGO_PROFILE_DEV_DEBUG="0")
    command = [CARGO, *arguments, "--message-format=json"]
    done = subprocess.run(command, cwd=COPY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.returncode == 0, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def write(path, data):
    """Only what changed, so that cargo compiles no more than that."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def list_mutants():
    patterns = [part for pattern in FILES for part in ("-f", pattern)]
    done = subprocess.run([CARGO, "mutants", "--list", "--json", *patterns], cwd=PROJECT, stdout=subprocess.PIPE, check=True)
    mutants = json.loads(done.stdout)
    for number, mutant in enumerate(mutants, 1):
        mutant["id"] = number
        del mutant["diff"]
    save("list", mutants)


def plant_once(dropped):
    """Copies the sources, with all mutants in them except those dropped."""
    by_file = collections.defaultdict(list)
    mutants = load("list")
    for mutant in mutants:
        by_file[mutant["file"]].append(mutant)
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("\n")
    sites, unplanted = {}, {}
    for name in filter(lambda name: name and (PROJECT / name).is_file(), names):
        data = (PROJECT / name).read_bytes()
        if name in by_file:
            planter = Planter(data, [mutant for mutant in by_file[name] if str(mutant["id"]) not in dropped])
            data = planter.planted().encode()
            sites.update(planter.sites)
            unplanted.update(planter.unplanted)
        elif name == "src/lib.rs":
            data += b"\npub mod mutation;\n"
        write(COPY / name, data)
        shutil.copymode(PROJECT / name, COPY / name)
    write(COPY / "src/mutation.rs", CHOICE.replace("COUNT", str(len(mutants) + 1)).encode())
    save("planted", {"sites": sites, "unplanted": unplanted})


def culprits(message):
    """The mutants in which an error of the compiler is, or else what it refers to."""
    return marked_by(message, True) or marked_by(message, False)


def marked_by(message, is_primary):
    found = set()
    for span in message["spans"]:
        if not (COPY / span["file_name"]).exists():
            continue  # of the standard library
        text = (COPY / span["file_name"]).read_bytes()
        if (message.get("code") or {}).get("code") == "E0004":
            return found | arms_of_match(text, span)
        if span["is_primary"] != is_primary:
            continue
        innermost = None
        for mark in re.finditer(rb"/\*@(\d+)\{\*/", text[: span["byte_start"] + 1]):
            if text.find(b"/*}@%s*/" % mark.group(1), mark.end()) >= span["byte_start"]:
                innermost = int(mark.group(1))
        if innermost is not None:
            found.add(innermost)
    return found


def arms_of_match(text, span):
    """A match in which every arm may be missing is not exhaustive."""
    node = PARSER.parse(text).root_node.descendant_for_byte_range(span["byte_start"], span["byte_end"])
    while node is not None and node.type != "match_expression":
        node = node.parent
    arms = [arm for arm in node.child_by_field_name("body").children if arm.type == "match_arm"] if node else []
    heads = [text[arm.start_byte : arm.child_by_field_name("value").start_byte] for arm in arms]
    return {int(number) for head in heads for number in re.findall(rb"active\((\d+)\) != ", head)}


def plant():
    list_mutants()
    dropped = load("dropped", {})
    while True:
        plant_once(dropped)
        good, messages = cargo("check", "--lib")
        errors = [m["message"] for m in messages if m.get("reason") == "compiler-message" and m["message"]["level"] == "error"]
        errors = [error for error in errors if error["spans"]]
        new = {str(number): error["message"] for error in errors for number in culprits(error)}
        print(f"plant: {len(errors)} errors, {len(new)} mutants do not compile", flush=True)
        if good:
            return
        if not new:
            sys.exit("plant: " + errors[0]["rendered"])
        dropped.update(new)
        save("dropped", dropped)


def compile_tests():
    good, messages = cargo("test", "--lib", "--test", "process", "--test", "project", "--test", "blackbox", "--no-run")
    if not good:
        sys.exit("compile: the tests do not compile")
    made = [m for m in messages if m.get("reason") == "compiler-artifact" and m.get("executable") and m["profile"]["test"]]
    save("programs", {m["target"]["name"]: m["executable"] for m in made})


def execute(program, tests, extra, limit, threads=1):
    """Runs tests of one program: whether they pass, how long they took, and what they printed."""
    began = time.monotonic()
    environment = {**os.environ, **ENVIRONMENT, **extra}
    command = [*ISOLATED, program, "--exact", "--test-threads", str(threads), *tests]
    child = subprocess.Popen(
        command, cwd=COPY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )

    def end():
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    timer = threading.Timer(limit, end)
    timer.start()
    output = child.stdout.read(1 << 22)
    child.stdout.close()
    status = child.wait()
    timer.cancel()
    end()
    return status == 0, time.monotonic() - began, output


def cover(*kinds):
    known = load("coverage", {})
    now = 1 + max((test["round"] for test in known.values()), default=0)
    (WORK / "reached").mkdir(exist_ok=True)
    tests = []
    for kind, program in load("programs").items():
        if kinds and kind not in kinds:
            continue
        listed = subprocess.run([program, "--list", "--format", "terse"], cwd=COPY, stdout=subprocess.PIPE, text=True)
        names = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
        tests += [(kind, program, name) for name in names if f"{kind} {name}" not in known]

    def run(number, kind, program, name):
        file = WORK / "reached" / str(number)
        file.unlink(missing_ok=True)
        good, took, _ = execute(program, [name], {"MUTANT_COVER": str(file)}, 300)
        reached = sorted({int(line) for line in file.read_text().split()}) if file.exists() else []
        return f"{kind} {name}", {"good": good, "took": took, "sites": reached, "round": now}

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(run, number, *test) for number, test in enumerate(tests)]
        for number, future in enumerate(concurrent.futures.as_completed(futures)):
            name, result = future.result()
            known[name] = result
            if number % 100 == 0:
                save("coverage", known)
                print(f"cover: {number} of {len(tests)} tests", flush=True)
    save("coverage", known)
    print("cover: these fail without a mutant, and are left out:", [name for name, test in known.items() if not test["good"]])


def near(path, test):
    """How much of the path of a file and of a test is the same."""
    parts = zip(path.removeprefix("src/").removesuffix(".rs").split("/"), test.split(" ")[1].split("::"))
    number = 0
    for one, other in parts:
        if one != other:
            break
        number += 1
    return number


def similar(mutant, test):
    """How many words of a black-box test are in the name of the mutant, or begin like one there."""
    stems = {word[:5] for word in re.findall(r"[a-z]{3,}", mutant["name"].lower())}
    return sum(word[:5] in stems for word in set(re.findall(r"[a-z]{3,}", test.lower())))


def distance(mutant, test, coverage):
    """The nearest tests come first, and of these the quickest; those of whole configurations are near all of `config`."""
    is_of_configurations = test.startswith("project config_diagnostics") and mutant["file"].startswith("src/config")
    return (-(2 if is_of_configurations else near(mutant["file"], test)), coverage[test]["took"])


def batches(mutant, tests, coverage):
    """The order in which tests are tried: those near the mutant, others, those that take long."""
    quick = [test for test in tests if coverage[test]["took"] < 2]
    quick.sort(key=lambda test: distance(mutant, test, coverage))
    slow = sorted((test for test in tests if coverage[test]["took"] >= 2), key=lambda test: coverage[test]["took"])
    size = 6
    while quick:
        for kind in ("containerpilot", "process", "project", "blackbox"):
            batch = [test for test in quick[:size] if test.startswith(kind + " ")]
            if batch:
                yield kind, batch
        quick, size = quick[size:], size * 4
    yield from ((test.split(" ", 1)[0], [test]) for test in slow)


def try_mutant(mutant, tests, coverage, programs):
    for kind, batch in batches(mutant, tests, coverage):
        names = [test.split(" ", 1)[1] for test in batch]
        limit = 10 + 8 * sum(coverage[test]["took"] for test in batch)
        good, _, output = execute(programs[kind], names, {"MUTANT": str(mutant["id"])}, limit, 2)
        if not good:
            failed = re.findall(rb"^test (\S+) \.\.\. FAILED", output, re.M)
            return {"outcome": "caught", "by": failed[0].decode() if failed else "time-out"}
    return {"outcome": "missed", "tests": len(tests)}


def try_all(pattern=""):
    sites, coverage, programs = load("planted")["sites"], load("coverage"), load("programs")
    newest = max(test["round"] for test in coverage.values())
    reaching = collections.defaultdict(list)
    for name, test in coverage.items():
        if test["good"]:
            for site in test["sites"]:
                reaching[site].append(name)
    mutants = [m for m in load("list") if str(m["id"]) in sites and re.search(pattern, m["file"])]
    for stage in ("unit", "blackbox"):
        results = load("results", {})

        def tests_for(mutant):
            """Those of this stage that it was not tried with."""
            known = results.get(str(mutant["id"]), {}).get(stage, 0)
            tests = [test for test in reaching[sites[str(mutant["id"])]] if coverage[test]["round"] > known]
            longest = lambda test: LONGEST_NEAR_TEST if near(mutant["file"], test) >= 4 else LONGEST_TEST
            tests = [test for test in tests if coverage[test]["took"] < longest(test)]
            if stage == "unit":
                tests = [test for test in tests if not test.startswith("blackbox ")]
                return sorted(tests, key=lambda test: distance(mutant, test, coverage))[:MOST_NEAR]
            tests = [test for test in tests if test.startswith("blackbox ")]
            return sorted(tests, key=lambda test: (-similar(mutant, test), coverage[test]["took"]))[:MOST_BLACK_BOX]

        def run(mutant):
            result = try_mutant(mutant, tests_for(mutant), coverage, programs)
            before = results.get(str(mutant["id"]), {})
            return {**before, **result, stage: newest, "tests": before.get("tests", 0) + result.get("tests", 0)}

        open_ = [m for m in mutants if results.get(str(m["id"]), {}).get("outcome") != "caught"]
        open_ = [m for m in open_ if results.get(str(m["id"]), {}).get(stage, 0) < newest]
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            futures = {pool.submit(run, m): str(m["id"]) for m in open_}
            done = {}
            for number, future in enumerate(concurrent.futures.as_completed(futures)):
                done[futures[future]] = future.result()
                if number % 50 == 0:
                    save("results", {**results, **done})
                    print(f"try: {stage}: {number} of {len(open_)} mutants", flush=True)
        save("results", {**results, **done})


def report():
    results, planted, dropped = load("results", {}), load("planted"), load("dropped", {})
    mutants = load("list")
    for area, beginning in AREAS.items():
        numbers = [str(mutant["id"]) for mutant in mutants if mutant["file"].startswith(beginning)]
        outcomes = collections.Counter(results[number]["outcome"] for number in numbers if number in results)
        tried, caught = sum(outcomes.values()), outcomes["caught"]
        score = f"{100 * caught / tried:.1f} %" if tried else "none tried"
        left = sum(number in planted["unplanted"] for number in numbers)
        bad = sum(number in dropped for number in numbers)
        print(f"{area}: {len(numbers)} mutants, {bad} do not compile, {left} not planted, {tried} tried, {caught} caught: {score}")
    for mutant in mutants:
        outcome = results.get(str(mutant["id"]), {}).get("outcome", "caught")
        if outcome != "caught":
            reached = results[str(mutant["id"])]["tests"]
            print(f"missed by {reached} tests, number {mutant['id']}: {mutant['name']}")


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    steps = {"plant": plant, "compile": compile_tests, "cover": cover, "try": try_all, "report": report}
    if len(sys.argv) > 1:
        return steps[sys.argv[1]](*sys.argv[2:])
    for step in steps.values():
        step()


if __name__ == "__main__":
    main()
