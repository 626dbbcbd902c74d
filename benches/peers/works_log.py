"""The works about output: (e), lines through the log, whole and in order."""

import glob
import os
import subprocess
import time

import machine
from adapters import Job, Us, UsForgetful, UsFull
from running import Run, TooSlow, wait_until
from works import Work

LINE = 100
LINES = 2_000_000
WRITERS = 100

# Bytes that a logger adds to each line: TAI64N and a space, ISO 8601 with five decimals and a space, nothing.
ADDED = {"s6": 26, "runit": 26, "supervisord": 0, "horust": 0}


class Log(Work):
    letter, title = "e", "2,000,000 lines of 100 bytes through the log"
    cases = ["default", "text", "json", "raw", "default, 100 jobs"]

    def rounds(self, asked, case, adapter):
        return min(asked, 3) if adapter.name in ADDED else min(asked, 10)

    def takes_part(self, case, adapter):
        others = ADDED if case.startswith("default") else ["nothing"] if case == "raw" else []
        if isinstance(adapter, Us):
            return not isinstance(adapter, UsFull) and (case == "default" or not isinstance(adapter, UsForgetful))
        return adapter.name in others

    def measure(self, bench, case, adapter):
        jobs = WRITERS if "100" in case else 1
        each = LINES // jobs
        with Run(bench.helper) as run:
            if isinstance(adapter, Us):
                figures, sinks = self.ours(bench, run, adapter, case, jobs, each)
            elif adapter.name == "nothing":
                figures, sinks = self.plain(bench, run, each)
            else:
                figures, sinks = self.theirs(bench, run, adapter, jobs, each)
            found = subprocess.run([bench.helper("verify"), str(jobs), str(each), *sinks],
                                   stdout=subprocess.PIPE, check=True).stdout.split()
            lines, lost, disorder, damaged = map(int, found)
            seconds = figures.pop("seconds")
            return {"mb_per_s": LINES * LINE / 1e6 / seconds, "wall_ms": seconds * 1e3, **figures,
                    "lost": lost, "disorder": disorder, "damaged": damaged}

    def ours(self, bench, run, adapter, case, jobs, each):
        """Its jobs end, and then it ends."""
        entries = [{"name": f"job-{index}", "exec": [bench.helper("lines"), f"{each},{index},{run.stamps}"],
                    **({"logging": {"raw": True}} if case == "raw" else {})} for index in range(jobs)]
        form = {"format": case} if case in ("text", "json") else {}
        # With `raw` the job writes into the same file as we do, and its writes end within a line: a record of ours would cut it.
        level = "WARN" if case == "raw" else "INFO"
        run.start(adapter.configured(run, entries, logging={"level": level, **form}))
        _, status, use = os.wait4(run.process.pid, 0)
        end = time.monotonic_ns()
        run.process.returncode = status
        return {"seconds": (end - min(run.times())) / 1e9, "cpu_ms": (use.ru_utime + use.ru_stime) * 1e3}, [run.path("out")]

    def plain(self, bench, run, each):
        """The writer alone, into the same file."""
        run.start([bench.helper("lines"), f"{each},0,{run.stamps}"])
        _, status, use = os.wait4(run.process.pid, 0)
        run.process.returncode = status
        start, end = run.times()
        return {"seconds": (end - start) / 1e9, "cpu_ms": (use.ru_utime + use.ru_stime) * 1e3}, [run.path("out")]

    def theirs(self, bench, run, adapter, jobs, each):
        """They would start a job that ends again, so writers stay; the work is done when the log is complete."""
        folder = adapter.name in ("s6", "runit")
        logs = [run.path(f"log-{index}") for index in range(jobs)]
        run.start(adapter.many(run, [Job(bench.helper("lines"), f"{each},{index},{run.stamps},stay", log=logs[index])
                                     for index in range(jobs)]))
        due = LINES * (LINE + ADDED[adapter.name])

        def files(log):
            # Rotated files of s6-log begin with @ and sort by age; the current one is the last.
            return sorted(glob.glob(f"{log}/@*")) + glob.glob(f"{log}/current") if folder else glob.glob(log)

        def written():
            return sum(os.stat(path).st_size for log in logs for path in files(log)) >= due
        try:
            wait_until(written, 60, "the whole log", 0.002)
        except TooSlow:
            if run.count() < 2 * jobs:
                raise
        end = time.monotonic_ns()
        everything = machine.descendants(run.process.pid)
        cpu = sum(map(machine.cpu_ms, [run.process.pid, *everything]))
        return {"seconds": (end - min(run.times())) / 1e9, "cpu_ms": cpu}, [path for log in logs for path in files(log)]
