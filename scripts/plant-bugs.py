#!/usr/bin/env python3
"""Tests the simulation: plants the bugs of tests/simulation/bugs/ in a copy of the sources, and lets the simulation look
for each of them. Prints a table of the seeds and rules by which they were found; exits with 1 if one was not found.

    scripts/plant-bugs.py [-seeds 10000] [NAME…]

The copy is built once: each function that a bug changes is there in both versions, and PLANTED=NAME in the environment
chooses.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUGS = ROOT / "tests/simulation/bugs"
COPY = ROOT / "target/planted"
SEEDS = 10_000

CHOICE = '''
mod planted {
    pub fn is(bug: &str) -> bool {
        static BUG: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
        BUG.get_or_init(|| std::env::var("PLANTED").ok()).as_deref() == Some(bug)
    }
}
'''


class Unplantable(Exception):
    """Why a bug cannot be planted."""


class Function:
    """A function in the lines of a formatted file: where it begins, where its body does, and where it ends."""

    def __init__(self, lines, begin):
        self.begin = begin
        indent = re.match(r" *", lines[begin])[0]
        closes = (indent + "{", indent + ")")
        self.body = next(number for number in range(begin, len(lines))
                         if lines[number].endswith("{") and (number == begin or lines[number].startswith(closes)))
        self.end = next(number for number in range(self.body, len(lines)) if lines[number] == indent + "}")

    def is_within(self, other):
        """Whether it is part of another one."""
        return other.begin < self.begin and self.end <= other.end


def functions(lines):
    """All functions that have a body, in the order of their beginnings."""
    head = re.compile(r" *(pub(\([a-z: ]*\))? )?(const |async |unsafe )*fn \w+")
    begins = [number for number, line in enumerate(lines) if head.match(line)]
    found = []
    for begin in begins:
        # A method that a trait only declares ends with a semicolon.
        if not lines[next(number for number in range(begin, len(lines)) if lines[number][-1:] in "{;")].endswith(";"):
            found.append(Function(lines, begin))
    return found


def patched(bug):
    """The files that a bug changes, with their changed lines."""
    text = bug.read_text()
    names = re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)
    folder = COPY.with_name("planting")
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    command = ["patch", "--strip=1", "--batch", "--silent", "--no-backup-if-mismatch", f"--input={bug}"]
    applied = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if applied.returncode != 0:
        raise Unplantable(f"DOES NOT APPLY: {applied.stdout.strip()}")
    return {name: (folder / name).read_text().splitlines() for name in names}


def changed_functions(before, after):
    """For each function that differs, and has no other one in it that does: the function, and its other body."""
    old, new = functions(before), functions(after)
    if len(old) != len(new):
        raise Unplantable("CHANGES MORE THAN THE BODIES OF FUNCTIONS")
    pairs = [(one, other) for one, other in zip(old, new)
             if before[one.begin:one.end] != after[other.begin:other.end]]
    inner = [(one, other) for one, other in pairs if not any(third.is_within(one) for third, _ in pairs)]
    restored = list(after)
    for one, other in reversed(inner):
        restored[other.begin:other.end] = before[one.begin:one.end]
        if before[one.begin:one.body + 1] != after[other.begin:other.body + 1]:
            raise Unplantable("CHANGES MORE THAN THE BODIES OF FUNCTIONS")
    if restored != before:
        raise Unplantable("CHANGES MORE THAN THE BODIES OF FUNCTIONS")
    return [(one, after[other.body + 1:other.end]) for one, other in inner]


def plant(bugs):
    """Puts every bug into the copy; returns why some could not be planted."""
    problems, bodies = {}, {}
    for bug in bugs:
        try:
            for name, after in patched(bug).items():
                before = (ROOT / name).read_text().splitlines()
                for function, body in changed_functions(before, after):
                    bodies.setdefault(name, {}).setdefault(function.begin, (function, []))[1].append((bug.stem, body))
        except Unplantable as problem:
            problems[bug.stem] = str(problem)
    for name, planted in bodies.items():
        lines = (ROOT / name).read_text().splitlines()
        for _, (function, versions) in sorted(planted.items(), reverse=True):
            text = []
            for bug, body in versions:
                text += [f'if crate::planted::is("{bug}") {{', *body, "} else "]
            text += ["{", *lines[function.body + 1:function.end], "}"]
            lines[function.body + 1:function.end] = text
            lines[function.begin] = lines[function.begin].replace("const fn", "fn")
        (COPY / name).write_text("\n".join(lines) + "\n")
    return problems


def copy_sources():
    """A copy beside the real ones, which stay as they are."""
    COPY.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()
    for name in listed:
        source, target = ROOT / name, COPY / name
        if not source.is_file():
            continue
        # What did not change keeps its time, so that it is not built again.
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    # Another version is another package, so that cargo does not take one for the other.
    manifest = COPY / "Cargo.toml"
    text = re.sub(r'^version = "(\d+\.\d+\.\d+)"', r'version = "\1-planted"', manifest.read_text(), count=1, flags=re.MULTILINE)
    manifest.write_text(text)
    with (COPY / "src/lib.rs").open("a") as library:
        library.write(CHOICE)


def build():
    """The tests with all bugs in them."""
    # What the package depends on is built once; the copy itself is another package.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    command = ["cargo", "test", "--profile", "simulation", "--lib", "--no-run"]
    run = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    found = re.search(r"Executable .* \((.*)\)", run.stderr)
    if not found:
        sys.exit(f"the sources with the bugs do not compile:\n{run.stderr[-5000:]}")
    return COPY / found[1]


def search(program, bug, seeds):
    """What the simulation says: the seed and the rule, or why there is none."""
    environment = {**os.environ, "PLANTED": bug, "SEEDS": str(seeds), "SHRINK": "0", "RUST_BACKTRACE": "0"}
    command = [program, "simulation::whatever", "--nocapture"]
    run = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, text=True)
    found = re.search(r"^seed (\d+) breaks: ([^:]+)", run.stderr, re.MULTILINE)
    if found:
        return int(found[1]), found[2]
    if run.returncode == 0:
        return None, "NOT FOUND"
    panicked = re.search(r"panicked at (.*)", run.stderr)
    return None, f"DOES NOT RUN: {panicked[1] if panicked else run.stderr[-300:]}"


def explanation(bug):
    """The first line of the patch."""
    return bug.read_text().splitlines()[0]


def main():
    arguments = sys.argv[1:]
    seeds = SEEDS
    if arguments[:1] == ["-seeds"]:
        seeds = int(arguments[1])
        arguments = arguments[2:]
    bugs = sorted(BUGS.glob("*.patch"))
    if arguments:
        bugs = [BUGS / f"{name}.patch" for name in arguments]
    copy_sources()
    problems = plant(bugs)
    program = build()
    seed, rule = search(program, "none", min(seeds, 2000))
    if rule != "NOT FOUND":
        sys.exit(f"without a bug, seed {seed} breaks a rule: {rule}")
    print("| bug | found at seed | broken rule |\n|---|---|---|", flush=True)
    missed = 0
    for bug in bugs:
        seed, rule = (None, problems[bug.stem]) if bug.stem in problems else search(program, bug.stem, seeds)
        missed += seed is None
        print(f"| {bug.stem}: {explanation(bug)} | {'—' if seed is None else seed} | {rule} |", flush=True)
    print(f"\n{len(bugs) - missed} of {len(bugs)} bugs were found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
