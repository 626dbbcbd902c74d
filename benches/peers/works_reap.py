"""The work about orphans: (h)."""

import contextlib
import os
import statistics
import subprocess
import time

import machine
from adapters import Bare, Job, Us
from running import Cannot, Run, wait_until
from tracing import Tracing
from works import Work


def as_init():
    """What makes the next program the first process of a namespace, as in a container."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc"]


class Orphans(Work):
    letter, title = "h", "10,000 orphans, as PID 1"
    orphans = 10_000
    batches = {"one after the other": 1, "1,000 at once": 1_000}
    cases = list(batches)
    crowded = True

    def rounds(self, asked, case, adapter):
        return min(asked, 5)

    def measure(self, bench, case, adapter):
        if subprocess.run([*as_init(), "true"], stderr=subprocess.DEVNULL).returncode != 0:
            raise Cannot("this machine lets nobody make a PID namespace")
        beats_too = isinstance(adapter, (Us, Bare))
        program = bench.binary if isinstance(adapter, Us) else "bare"
        tracing = Tracing(program) if beats_too and Tracing.is_possible() else contextlib.nullcontext()
        with Run(bench.helper) as run, tracing:
            done, beats = run.path("done"), run.path("beats")
            orphans = Job(bench.helper("orphans"), f"{self.orphans},{self.batches[case]},{done}")
            # A job that ends all the time meanwhile: how late is that seen?
            beat = Job(bench.helper("beat"), beats, restart=True)
            if isinstance(adapter, Bare):
                command = [bench.helper("bare"), "init", *beat.argv(), "--", *orphans.argv()]
            else:
                command = adapter.many(run, [orphans, beat] if beats_too else [orphans])
            run.start(command, prefix=as_init())
            wait_until(lambda: run.count(done), 120, "10,000 dead orphans")
            last = run.times(done)[0]
            time.sleep(max(0, last + 100_000_000 - time.monotonic_ns()) / 1e9)
            zombies = self.zombies(run)
            figures = {"zombies": zombies, "wall_ms": (last - run.started_ns()) / 1e6}
            if beats_too:
                times = [moment for moment in run.times(beats) if moment <= last]
                # start, end, start, end, …
                gaps = [(times[index + 1] - times[index]) / 1e6 for index in range(1, len(times) - 1, 2)]
                figures |= {"gap_median_ms": statistics.median(gaps), "gap_max_ms": max(gaps), "exits": len(gaps)}
            # The supervisor is the first below `unshare`. Within a container, the kernel's notes have other numbers.
            traced = isinstance(tracing, Tracing) and tracing.lateness_ms(machine.descendants(run.process.pid)[0])
            if traced:
                late, own = zip(*traced)
                figures |= {"lateness_median_ms": statistics.median(late), "lateness_max_ms": max(late), "own_max_ms": max(own)}
            return figures

    @staticmethod
    def zombies(run):
        found = 0
        for pid in machine.descendants(run.process.pid):
            if machine.is_zombie(pid) and machine.read(f"/proc/{pid}/comm").strip() == "orphans":
                found += 1
        return found
