#!/usr/bin/env python3
"""Runs the same work under us, under nothing at all and under our peers, in turns, and writes what it found to
docs/benchmarks: a table, plots, and the figures as JSON.

    benches/peers/run.py                                     everything
    benches/peers/run.py --only a,b --peers us,tini --rounds 10 --binary target/release/containerpilot
    benches/peers/run.py --redraw                            table and plots anew from the last figures
"""

import argparse
import fnmatch
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402
import report  # noqa: E402
from adapters import adapters  # noqa: E402
from running import Cannot, TooSlow  # noqa: E402
from catalogue import WORKS  # noqa: E402

ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


class Bench:
    """What the works need to know, and what they found."""

    def __init__(self, peers, binary):
        self.peers, self.binary, self.target = Path(peers), binary, TARGET
        self.samples = {}
        self.notes = {}
        self.instructions = []

    def helper(self, name):
        return str(self.peers / "bin" / name)

    def record(self, letter, case, peer, figures):
        kept = self.samples.setdefault(letter, {}).setdefault(case, {}).setdefault(peer, {})
        for name, value in figures.items():
            kept.setdefault(name, []).append(value)

    def note(self, letter, case, peer, text):
        self.notes.setdefault(letter, {}).setdefault(case, {})[peer] = text


def ours(target):
    """The static build if there is one, else the usual release build."""
    found = sorted(target.glob("dist/**/containerpilot"), key=lambda path: path.stat().st_mtime)
    return str(found[-1] if found else target / "release" / "containerpilot")


def instructions(binary):
    """Counted by valgrind, where there is one."""
    counted = subprocess.run([str(HERE.parent / "instructions.sh"), binary], stdout=subprocess.PIPE, text=True)
    return counted.stdout.splitlines()


def run_case(bench, work, case, field, asked, letters):
    """All rounds of one case: each peer once a round, a different one first each time."""
    taking_part = [adapter for adapter in field if work.takes_part(case, adapter)]
    out = set()
    for turn in range(asked):
        shift = turn % max(1, len(taking_part))
        for adapter in taking_part[shift:] + taking_part[:shift]:
            if adapter.name in out or turn >= work.rounds(asked, case, adapter):
                continue
            try:
                figures = work.measure(bench, case, adapter)
            except Cannot as reason:
                out.add(adapter.name)
                bench.note(work.letter, case, adapter.name, f"cannot: {reason}")
                continue
            except TooSlow as reason:
                out.add(adapter.name)
                bench.note(work.letter, case, adapter.name, f"failed: {reason}")
                print(f"    {adapter.name}: failed: {reason}", flush=True)
                continue
            if set(figures) <= {other.letter for other in WORKS}:
                for other in WORKS:
                    wanted = other.letter in letters and other.letter in figures and case in other.cases
                    if wanted and other.takes_part(case, adapter):
                        bench.record(other.letter, case, adapter.name, figures[other.letter])
            else:
                bench.record(work.letter, case, adapter.name, figures)
    for letter in letters:
        if letter == work.letter or (letter == "g" and work.letter == "c"):
            show(bench, letter, case)


def show(bench, letter, case):
    for peer, figures in bench.samples.get(letter, {}).get(case, {}).items():
        shown = ", ".join(f"{name} {statistics.median(values):.4g}" for name, values in figures.items())
        rounds = max(len(values) for values in figures.values())
        print(f"    {letter} {peer:36} {shown}  ({rounds} rounds)", flush=True)


def merged(old, new):
    """The old figures with what was measured anew in their place, and without cases that are gone. The page says which."""
    repeated = old.setdefault("repeated", {})
    for letter, cases in new["samples"].items():
        for case, peers in cases.items():
            repeated.setdefault(letter, {})[case] = {"date": new["date"], "peers": sorted(peers)}
    for part in ("samples", "notes"):
        for letter, cases in new[part].items():
            for case, peers in cases.items():
                for peer, found in peers.items():
                    for kept in ("samples", "notes"):
                        old[kept].get(letter, {}).get(case, {}).pop(peer, None)
                    old[part].setdefault(letter, {}).setdefault(case, {})[peer] = found
    for work in WORKS:
        for part in ("samples", "notes"):
            for case in old[part].get(work.letter, {}).keys() - set(work.cases):
                del old[part][work.letter][case]
    old["instructions"] = new["instructions"] or old["instructions"]
    return old


def keep(bench, chosen, began, before, out):
    """Writes figures, table and plots."""
    figures = {"machine": machine.describe(), "load_before": before, "load_after": machine.load(),
               "seconds": round(time.time() - began), "date": time.strftime("%Y-%m-%d"), "realtime": chosen.realtime,
               "rounds": chosen.rounds, "binary_bytes": os.stat(bench.binary).st_size, "instructions": bench.instructions,
               "samples": bench.samples, "notes": bench.notes}
    if chosen.merge and (out / "figures.json").exists():
        figures = merged(json.loads((out / "figures.json").read_text()), figures)
    out.mkdir(parents=True, exist_ok=True)
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    report.write(figures, out)


def end_tidily(*_):
    """Ends the run through its `with`, so that nothing stays behind; once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="letters of works, with commas")
    options.add_argument("--peers", default="", help="names of peers, with commas; 'us' is containerpilot")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--realtime", action="store_true",
                         help="as root: let all that is measured go before other work, on a machine that is never quiet; "
                              "whoever else works there is starved meanwhile")
    options.add_argument("--cases", default="", help="only cases of this name, a shell pattern: 10, 'ping*'")
    options.add_argument("--binary", default=None, help="our program")
    options.add_argument("--out", default=None, help="folder for table, plots and figures; 'none' writes nothing")
    options.add_argument("--merge", action="store_true", help="keep the figures that were there and are not measured now")
    options.add_argument("--redraw", action="store_true", help="measure nothing")
    chosen = options.parse_args()
    everything = not (chosen.only or chosen.peers or chosen.cases)
    # A part of the works does not replace the table of all.
    out = Path(chosen.out) if chosen.out else ROOT / "docs/benchmarks" if everything else TARGET / "peers/last"
    if chosen.redraw:
        report.write(json.loads((out / "figures.json").read_text()), out)
        return
    peers = subprocess.run([str(HERE / "fetch.sh"), *([] if everything else ["helpers"])], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    binary = os.path.abspath(chosen.binary) if chosen.binary else ours(TARGET)
    if not os.path.exists(binary):
        sys.exit(f"there is no {binary}: build it, or name another with --binary")
    machine.adopt_orphans()
    signal.signal(signal.SIGTERM, end_tidily)
    bench = Bench(peers, binary)
    field = adapters(peers, binary)
    names = {"us": "containerpilot"}
    wanted = [names.get(name, name) for name in chosen.peers.split(",") if name]
    for adapter in list(field):
        missing = adapter.missing()
        if missing or (wanted and adapter.name.split(",")[0] not in wanted):
            field.remove(adapter)
            if missing:
                print(f"{adapter.name} does not take part: {missing}", flush=True)
    letters = [letter for letter in chosen.only.split(",") if letter] or [work.letter for work in WORKS]
    before, began = machine.load(), time.time()
    if "a" in letters and chosen.out != "none":
        bench.instructions = instructions(binary)
    done = set()
    for work in WORKS:
        if work.letter not in letters:
            continue
        if chosen.realtime:
            machine.go_before_others(not work.crowded)
        for case in work.cases:
            if not fnmatch.fnmatch(case, chosen.cases or "*") or (work.letter, case) in done:
                continue
            print(f"({work.letter}) {work.title}{': ' + case if case else ''}  [load {machine.load()[0]}]", flush=True)
            run_case(bench, work, case, field, chosen.rounds, letters)
            # (c) measures (g) too.
            done |= {("g", case)} if work.letter == "c" else set()
        # After each work, so that a run that is stopped leaves what it has.
        if chosen.out != "none":
            keep(bench, chosen, began, before, out)


if __name__ == "__main__":
    main()
