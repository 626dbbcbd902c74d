#!/usr/bin/env python3
"""Tests the simulation: plants each bug of tests/simulation/bugs/ in a copy of the sources, and lets the simulation look
for it. Prints a table of the seeds and rules by which they were found; exits with 1 if one was not found.

    scripts/plant-bugs.py [-seeds 10000] [NAME…]
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUGS = ROOT / "tests/simulation/bugs"
COPY = ROOT / "target/planted"
SEEDS = 10_000


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


def patch(bug, *flags):
    command = ["patch", "--strip=1", "--batch", "--silent", "--no-backup-if-mismatch", *flags, f"--input={bug}"]
    return subprocess.run(command, cwd=COPY, capture_output=True, text=True)


def search(seeds):
    """What the simulation says: the seed and the rule, or why there is none."""
    # What the package depends on is built once; the copy itself is another package.
    environment = {**os.environ, "SEEDS": str(seeds), "SHRINK": "0", "RUST_BACKTRACE": "0"}
    environment["CARGO_TARGET_DIR"] = str(ROOT / "target")
    command = ["cargo", "test", "--quiet", "--lib", "simulation::whatever", "--", "--nocapture"]
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
    print("| bug | found at seed | broken rule |\n|---|---|---|", flush=True)
    missed = 0
    for bug in bugs:
        copy_sources()
        began = time.monotonic()
        applied = patch(bug)
        if applied.returncode != 0:
            seed, rule = None, f"DOES NOT APPLY: {applied.stdout.strip()}"
        else:
            seed, rule = search(seeds)
        missed += seed is None
        print(f"| {bug.stem}: {explanation(bug)} | {'—' if seed is None else seed} | {rule} |", flush=True)
        print(f"{bug.stem}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    copy_sources()
    print(f"\n{len(bugs) - missed} of {len(bugs)} bugs were found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
