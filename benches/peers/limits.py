"""What we must reach, as ratios and figures of one run. Each limit reads the medians and says what it found."""

from dataclasses import dataclass
from typing import Callable


@dataclass
class Limit:
    letter: str
    case: str
    metric: str
    text: str
    # From the medians of the case by peer and the name of the figure: what is allowed; None where it cannot be told.
    bound: Callable
    at_least: bool = False

    def reached(self, ours, bound):
        return ours >= bound if self.at_least else ours <= bound


def peer(name, factor=1.0):
    """A multiple of a peer's figure for the same metric."""
    return lambda medians, metric: factor * medians[name][metric] if metric in medians.get(name, {}) else None


def best(names, factor):
    def bound(medians, metric):
        values = [medians[name][metric] for name in names if metric in medians.get(name, {})]
        return factor * min(values) if values else None
    return bound


def fixed(value):
    return lambda medians, metric: value


LIMITS = [
    Limit("a", "one command", "wall_ms", "< 2 × tini", peer("tini", 2)),
    Limit("a", "one job of a configuration", "wall_ms", "< 2 × tini", peer("tini", 2)),
    Limit("b", "", "wall_ms", "≤ 2 × tini", peer("tini", 2)),
    Limit("c", "100", "wall_ms", "≤ 1.5 × a bare spawn loop", peer("nothing", 1.5)),
    *[Limit("c", case, "wall_ms", "≤ 0.9 × the better of runit and s6", best(["runit", "s6"], 0.9))
      for case in ("100", "1000")],
    Limit("c", "1", "pss_mb", "≤ 6.5 MB", fixed(6.5)),
    Limit("c", "100", "pss_mb", "≤ 7 MB", fixed(7)),
    Limit("c", "1000", "pss_mb", "≤ 11.5 MB", fixed(11.5)),
    Limit("d", "", "wakeups", "0 wake-ups", fixed(0)),
    Limit("d", "", "cpu_ms", "0 ms CPU", fixed(0)),
    *[Limit("e", case, "mb_per_s", f"≥ {value} MB/s", fixed(value), at_least=True)
      for case, value in (("default", 600), ("text", 500), ("json", 500))],
    Limit("e", "default", "mb_per_s", "≥ 0.95 × with nothing kept in memory", peer("containerpilot, keeps nothing", 0.95),
          at_least=True),
    *[Limit("e", case, metric, f"no line {word}", fixed(0)) for case in ("default", "text", "json", "raw", "default, 100 jobs")
      for metric, word in (("lost", "lost"), ("disorder", "out of order"), ("damaged", "damaged"))],
    Limit("f", "", "per_s", "≥ 0.85 × a bare spawn-and-wait loop", peer("nothing", 0.85), at_least=True),
    Limit("f", "", "rss_growth_mb", "memory flat (≤ 0.25 MB in 3 s)", fixed(0.25)),
    Limit("g", "10", "wall_ms", "≤ 3 ms", fixed(3)),
    Limit("g", "1000", "wall_ms", "≤ 150 ms", fixed(150)),
    *[limit for case in ("one after the other", "1,000 at once") for limit in (
        Limit("h", case, "zombies", "0 zombies 100 ms after the last death", fixed(0)),
        Limit("h", case, "lateness_max_ms", "no exit status of ours late by more than 5 ms", fixed(5)))],
    # Among a thousand who all want a core, whoever is fair waits for his turn: what is left is our own.
    Limit("h", "1,000 at once", "own_max_ms", "… not counting when others have the cores", fixed(5)),
    Limit("i", "http", "core_percent", "≤ 1.5 × monit", peer("monit", 1.5)),
    Limit("i", "tcp", "core_percent", "≤ 1 % of a core", fixed(1)),
    Limit("i", "exec", "core_percent", "≤ 1.2 × a bare spawn loop", peer("nothing", 1.2)),
    Limit("j", "ping, 1 connection, idle", "per_s", "≥ 0.8 × ContainerPilot 3.8 (25,000/s)", fixed(20_000), at_least=True),
    Limit("j", "ping, 1 connection, idle", "p99_us", "≤ 145 µs", fixed(145)),
    Limit("j", "ping, 10 connections, idle", "per_s", "≥ 0.8 × ContainerPilot 3.8 (45,000/s)", fixed(36_000), at_least=True),
    Limit("j", "/metrics, 1 connection, idle", "per_s", "≥ 13,000/s", fixed(13_000), at_least=True),
    Limit("k", "1000 jobs, one listener", "per_s", "≥ 300,000 events/s", fixed(300_000), at_least=True),
    Limit("l", "", "wall_ms", "≤ 20 ms median", fixed(20)),
    Limit("m", "", "wall_ms", "≤ 100 ms", fixed(100)),
    Limit("m", "", "restarted", "nothing restarted", fixed(0)),
    Limit("n", "", "mb", "≤ 7.5 MB", fixed(7.5)),
    *[limit for case in ("status", "events", "why", "graph, JSON", "graph, SVG", "graph, text", "ready", "crashes", "logs", "report", "/metrics")
      for limit in (Limit("o", case, "p99_us", "ping p99 ≤ 2 ms", fixed(2000)), Limit("o", case, "answer_ms", "≤ 100 ms", fixed(100)))],
]
