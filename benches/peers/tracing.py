"""What the kernel itself notes of a supervisor: when it is told that a child is dead, when it starts one, and when it
wants to run but others have the cores."""

import os
import re

ROOT = "/sys/kernel/tracing"
EVENT = re.compile(r"-(\d+) +\[\d+\] \S+ +(\d+)\.(\d{6}): (\w+): (.*)")
FIELD = re.compile(r"(\w+)=(\S+)")


class Tracing:
    """Notes what befalls processes with this name, in a buffer of its own."""

    def __init__(self, program):
        self.place = f"{ROOT}/instances/containerpilot-{os.getpid()}"
        self.name = os.path.basename(program)[:15]

    @staticmethod
    def is_possible():
        return os.access(f"{ROOT}/instances", os.W_OK)

    def __enter__(self):
        os.mkdir(self.place)
        try:
            self.begin()
        except OSError:
            os.rmdir(self.place)
            raise
        return self

    def begin(self):
        self.write("buffer_size_kb", "8192")
        self.note("signal/signal_generate", f'sig == 17 && comm == "{self.name}"')
        self.note("sched/sched_process_fork", f'parent_comm == "{self.name}"')
        self.note("sched/sched_waking", f'comm == "{self.name}"')
        self.note("sched/sched_switch", f'prev_comm == "{self.name}" || next_comm == "{self.name}"')

    def __exit__(self, *_):
        os.rmdir(self.place)

    def note(self, event, condition):
        self.write(f"events/{event}/filter", condition)
        self.write(f"events/{event}/enable", "1")

    def write(self, name, text):
        with open(f"{self.place}/{name}", "w") as file:
            file.write(text)

    def lateness_ms(self, supervisor):
        """From each death of a child that a process started itself to its next start of one: how long, and how long
        of that it was not kept from a core."""
        life = Life(str(supervisor))
        with open(f"{self.place}/trace", errors="replace") as lines:
            for found in filter(None, map(EVENT.search, lines)):
                moment = int(found[2]) * 1000 + int(found[3]) / 1000
                life.follow(found[4], moment, found[1], dict(FIELD.findall(found[5])))
        return life.lateness()


class Life:
    """Deaths and starts of a process's children, and how long it has waited for a core before each."""

    def __init__(self, pid):
        self.pid = pid
        self.deaths, self.starts = {}, []
        # Running, sleeping until something happens, waiting for a core, or waiting for something else.
        self.state, self.waited, self.waits_since = "runs", 0, None

    def follow(self, event, moment, actor, fields):
        if event == "signal_generate" and fields["pid"] == self.pid:
            # Whoever only sleeps is woken, whether or not the kernel notes that besides.
            self.wake(moment, {"sleeps"})
            self.deaths[actor] = (moment, self.waited_until(moment))
        elif event == "sched_process_fork" and actor == self.pid:
            self.starts.append((moment, self.waited_until(moment), fields["child_pid"]))
        elif event == "sched_waking" and fields["pid"] == self.pid:
            self.wake(moment, {"sleeps", "blocks"})
        elif event == "sched_switch" and fields["prev_pid"] == self.pid:
            self.state = {"R": "waits", "S": "sleeps"}.get(fields["prev_state"][0], "blocks")
            self.waits_since = moment if self.state == "waits" else None
        elif event == "sched_switch" and fields["next_pid"] == self.pid:
            self.state, self.waited, self.waits_since = "runs", self.waited_until(moment), None

    def wake(self, moment, states):
        if self.state in states:
            self.state, self.waits_since = "waits", moment

    def waited_until(self, moment):
        return self.waited + (moment - self.waits_since if self.waits_since else 0)

    def lateness(self):
        found = []
        for _, _, child in self.starts:
            death, waited_before = self.deaths.get(child, (None, None))
            if death is None:
                continue
            after = next(((start, waited) for start, waited, _ in self.starts if start > death), None)
            if after:
                late = after[0] - death
                found.append((late, late - (after[1] - waited_before)))
        return found
