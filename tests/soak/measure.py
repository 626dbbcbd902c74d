"""What the program uses: memory, descriptors, threads, and children, from /proc."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Sample:
    """One look at the program."""

    at: float
    rss: int  # KiB
    pss: int  # KiB
    fds: int  # without pipes and the connections to Consul
    pipes: int
    sockets: int  # without them, too
    consul: int  # those
    threads: int  # without those that start processes
    children: int
    zombies: int
    cpu: float  # seconds since its start


class Sampler:
    """Takes samples of one process, which has connections to Consul at that port."""

    def __init__(self, pid, consul_port):
        self.proc = PROC / str(pid)
        self.pid, self.consul_port = pid, consul_port
        self.last_zombies = set()

    def sample(self, at):
        """A look now. A child counts as a zombie if it was one at the look before, too: any child is one for a moment."""
        status = fields(self.proc / "status")
        kinds = self.descriptors()
        states = children(self.pid)
        zombies = {pid for pid, state in states.items() if state == "Z"}
        stale, self.last_zombies = zombies & self.last_zombies, zombies
        return Sample(
            at=at,
            rss=status["VmRSS"],
            pss=fields(self.proc / "smaps_rollup")["Pss"],
            fds=sum(kinds.values()) - kinds["pipe"] - kinds["consul"],
            pipes=kinds["pipe"],
            sockets=kinds["socket"],
            consul=kinds["consul"],
            threads=self.threads(),
            children=len(states),
            zombies=len(stale),
            cpu=cpu_seconds(self.proc),
        )

    def threads(self):
        """How many threads there are. Those that start processes do not count: once a start was slow there are more, and they stay."""
        names = []
        for task in (self.proc / "task").iterdir():
            try:
                names.append((task / "comm").read_text().strip())
            except (FileNotFoundError, ProcessLookupError):
                pass  # ended since
        return sum(name != "spawner" for name in names)

    def descriptors(self):
        """How many descriptors of each kind are open."""
        links = []
        for link in (self.proc / "fd").iterdir():
            try:
                links.append(os.readlink(link))
            except FileNotFoundError:
                pass  # closed since
        to_consul = connections_to(self.consul_port)
        return Counter("consul" if link in to_consul else link.split(":")[0] for link in links)


def connections_to(port):
    """The TCP connections of this machine to a port, as /proc/PID/fd shows them."""
    lines = [line.split() for line in (PROC / "net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{line[9]}]" for line in lines if int(line[2].partition(":")[2], 16) == port}


def fields(path):
    """The numbers of a file with lines such as `VmRSS:  123 kB`."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if rest and rest.split()[:1] and rest.split()[0].isdigit():
            found[name] = int(rest.split()[0])
    return found


def stat(proc):
    """The fields of /proc/PID/stat from the state on; the name before them may contain anything."""
    return (proc / "stat").read_text().rpartition(")")[2].split()


def cpu_seconds(proc):
    """The CPU time of a process, without that of its children."""
    return sum(map(int, stat(proc)[11:13])) / TICKS


def processes():
    """The folders of all processes."""
    return [entry for entry in PROC.iterdir() if entry.name.isdigit()]


def children(pid):
    """The states of a process's children, by process id."""
    found = {}
    for proc in processes():
        try:
            state, parent, *_ = stat(proc)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid:
            found[int(proc.name)] = state
    return found


def marked(mark):
    """The processes whose environment contains this mark."""
    found = []
    for proc in processes():
        try:
            if mark.encode() in (proc / "environ").read_bytes():
                found.append((int(proc.name), (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@dataclass
class Rule:
    """Which figure of some samples counts, and by how much the end may exceed the beginning: by a share, and by a number."""

    name: str
    figure: Callable
    share: float
    plus: int

    def verdict(self, first, last):
        """The two figures, the limit, and whether it holds."""
        limit = first * (1 + self.share) + self.plus
        return (self.name, first, last, limit, last <= limit)


# Connections to Consul come and go with it: none while it is away, and later as many as heartbeats came at the same time, at most one
# for each of the 24 services.
CONSUL = Rule("consul", max, 0, 24)
# Under load: what is typical, since each look finds other jobs, and each job that runs has two pipes. Crowds of clients come and go, and on a busy machine more looks find
# one: of what they have open the least counts, which grows with all that is never closed.
UNDER_LOAD = [
    Rule("rss", median, 0.10, 512),
    Rule("pss", median, 0.10, 512),
    Rule("fds", min, 0.10, 10),
    Rule("pipes", median, 0.10, 8),
    Rule("sockets", min, 0.15, 8),
    CONSUL,
    Rule("threads", median, 0, 1),
    Rule("zombies", median, 0, 0),
]
# The same without memory, which grows until what is kept on purpose is full.
SINCE_THE_FIRST_MINUTE = [rule for rule in UNDER_LOAD if rule.name not in ("rss", "pss")]
# Without clients and with the first configuration: the least of some looks, so that only what stays is counted.
AT_REST = [
    Rule("rss", min, 0.10, 512),
    Rule("pss", min, 0.10, 512),
    Rule("fds", min, 0, 4),
    Rule("pipes", min, 0, 4),
    Rule("sockets", min, 0, 4),
    CONSUL,
    Rule("threads", min, 0, 0),
    Rule("zombies", min, 0, 0),
]


def compare(rules, first, last):
    """Each rule's verdict about the samples of the beginning and those of the end."""
    figure = lambda samples, rule: rule.figure(getattr(sample, rule.name) for sample in samples)  # noqa: E731
    return [rule.verdict(figure(first, rule), figure(last, rule)) for rule in rules]


def slope(samples, name):
    """The growth per hour, by least squares."""
    if len(samples) < 3:
        return 0.0
    times = [sample.at for sample in samples]
    line = linear_regression(times, [getattr(sample, name) for sample in samples])
    return line.slope * 3600
