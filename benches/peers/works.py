"""The works about starting, running and stopping: (a) (b) (c) (d) (f) (g) (m) (n).

A work has cases; `measure(bench, case, adapter)` does one case once under one peer and returns its figures, or the
figures of several works by their letter. Raises Cannot with the reason where a peer has no such thing.
"""

import os
import select
import subprocess
import time

import machine
from adapters import Bare, Job, Piped, Us, UsForgetful, UsFull
from running import Cannot, Run, TooSlow


class Work:
    letter = ""
    title = ""
    cases = [""]
    # Whether more processes want to run than there are cores, so that a fair scheduler is part of what is measured.
    crowded = False

    def rounds(self, asked, case, adapter):
        """How many rounds of a case, given the number asked for."""
        return asked

    def takes_part(self, case, adapter):
        return not isinstance(adapter, (UsFull, UsForgetful, Piped))

    def measure(self, bench, case, adapter):
        raise NotImplementedError


def own_figures(run):
    """Memory and CPU of the supervisor's own processes, however many."""
    own = run.own()
    memory = [machine.memory_kb(pid) for pid in own]
    return {"rss_mb": sum(rss for rss, _ in memory) / 1024, "pss_mb": sum(pss for _, pss in memory) / 1024,
            "cpu_ms": sum(machine.cpu_ms(pid) for pid in own), "processes": len(own)}


def exited(pid, deadline_s):
    """Waits for a child to end without taking its status; the time of that."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(deadline_s * 1000):
            raise TooSlow(f"the supervisor lives {deadline_s} s after the signal")
        return time.monotonic_ns()
    finally:
        os.close(descriptor)


class Start(Work):
    letter, title = "a", "exec of the supervisor → first instruction of the first job"
    cases = ["one command", "one job of a configuration"]

    def measure(self, bench, case, adapter):
        with Run(bench.helper) as run:
            argv = [bench.helper("probe"), run.stamps]
            if case == "one command":
                try:
                    command = adapter.one(argv)
                except Cannot:
                    raise Cannot("takes no command line") from None
            else:
                command = adapter.many(run, [Job(*argv)])
            run.start(command)
            stamp = run.await_stamps(1, 30)[0]
            cpu = sum(machine.cpu_ms(pid) for pid in run.own())
            return {"wall_ms": (stamp - run.started_ns()) / 1e6, "cpu_ms": cpu}


class Life(Work):
    letter, title = "b", "whole life of one `/bin/true`"

    def rounds(self, asked, case, adapter):
        return min(asked, 5) if adapter.name == "horust" else asked

    def measure(self, bench, case, adapter):
        with Run(bench.helper) as run:
            command = [bench.helper("stopwatch"), *adapter.one(["/bin/true"])]
            reader, writer = os.pipe()

            def hand_over():
                os.dup2(writer, 3)

            run.process = subprocess.Popen(command, cwd=run.dir, stdin=subprocess.DEVNULL, pass_fds=[3, writer],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=hand_over)
            os.close(writer)
            run.process.wait(timeout=30)
            wall, cpu, status = os.read(reader, 100).split()
            os.close(reader)
            if int(status) != 0:
                raise TooSlow(f"its status was {int(status)}")
            return {"wall_ms": int(wall) / 1e6, "cpu_ms": int(cpu) / 1e3}


class Scale(Work):
    letter, title = "c", "jobs: time until all run, memory of the supervisor"
    cases = ["1", "10", "100", "1000"]

    def rounds(self, asked, case, adapter):
        return min(asked, adapter.rounds_at_1000 or asked) if case == "1000" else asked

    def takes_part(self, case, adapter):
        return not isinstance(adapter, UsForgetful)

    def measure(self, bench, case, adapter):
        number = int(case)
        with Run(bench.helper) as run:
            argument = f"{run.stamps},{run.fifo()}"
            run.start(adapter.many(run, [Job(bench.helper("probe"), argument)] * number))
            stamps = run.await_stamps(number, 120)
            wall = (stamps[number - 1] - run.started_ns()) / 1e6
            if not isinstance(adapter, Bare):
                settle(run)
            figures = {"wall_ms": wall, **own_figures(run)}
            if isinstance(adapter, Bare):
                figures = {"wall_ms": wall, "cpu_ms": machine.cpu_ms(run.process.pid)}
            before = time.monotonic_ns()
            os.kill(run.process.pid, adapter.stop_signal())
            end = max(exited(run.process.pid, 60), run.jobs_gone(60))
            return {"c": figures, "g": {"wall_ms": (end - before) / 1e6}}


def settle(run):
    """Waits until the supervisor has nothing more to do: its wake-ups stand still for 50 ms, at most 1 s long."""
    end = time.monotonic() + 1
    last = None
    while time.monotonic() < end:
        count = sum(machine.switches(pid) for pid in run.own())
        if count == last:
            return
        last = count
        time.sleep(0.05)


class Stop(Scale):
    letter, title = "g", "stop: signal → everything is gone"
    cases = ["10", "100", "1000"]

    def takes_part(self, case, adapter):
        return Work.takes_part(self, case, adapter)


class Restarts(Work):
    letter, title = "f", "restarts per second, backoff off"
    window_s = 3

    def rounds(self, asked, case, adapter):
        return min(asked, 3) if adapter.name in ("s6", "runit", "horust", "supervisord") else asked

    def measure(self, bench, case, adapter):
        with Run(bench.helper) as run:
            run.start(adapter.many(run, [Job(bench.helper("tick"), run.stamps, restart=True)]))
            run.await_stamps(2, 30)
            # We keep the last 10,000 events: until then memory grows.
            time.sleep(4 if isinstance(adapter, Us) else 0.5)
            before = own_figures(run)
            start = time.monotonic_ns()
            time.sleep(self.window_s)
            end = time.monotonic_ns()
            after = own_figures(run)
            stamps = [stamp for stamp in run.times() if start <= stamp < end]
            figures = {"per_s": len(stamps) / ((end - start) / 1e9),
                       "cpu_ms_per_s": (after["cpu_ms"] - before["cpu_ms"]) / ((end - start) / 1e9)}
            if not isinstance(adapter, Bare):
                figures |= {"rss_before_mb": before["rss_mb"], "rss_after_mb": after["rss_mb"]}
            return figures


class Idle(Work):
    letter, title = "d", "idle with 100 jobs for 20 s: wake-ups and CPU of the supervisor"
    seconds = 20

    def rounds(self, asked, case, adapter):
        return min(asked, 3 if isinstance(adapter, Us) else 1)

    def measure(self, bench, case, adapter):
        if isinstance(adapter, Bare):
            raise Cannot("nothing to wake up")
        number = 100
        with Run(bench.helper) as run:
            try:
                command = adapter.many(run, [Job(bench.helper("probe"), run.stamps)] * number)
            except Cannot:
                number = 1
                command = adapter.many(run, [Job(bench.helper("probe"), run.stamps)])
            run.start(command)
            run.await_stamps(number, 60)
            settle(run)
            time.sleep(2)
            own = run.own()
            before = sum(map(machine.switches, own)), sum(map(machine.cpu_ms, own))
            time.sleep(self.seconds)
            after = sum(map(machine.switches, own)), sum(map(machine.cpu_ms, own))
            return {"wakeups": after[0] - before[0], "cpu_ms": after[1] - before[1], "jobs": number}


class Size(Work):
    letter, title = "n", "size of the programs that must be in the image"

    def rounds(self, asked, case, adapter):
        return 1

    def measure(self, bench, case, adapter):
        files = [path for path in adapter.binaries() if path]
        if not files:
            raise Cannot("nothing to install")
        return {"mb": sum(os.stat(path).st_size for path in files) / 1e6}
