"""From figures to what people read: the table of limits, a table for each work, plots."""

import statistics

import plot
from limits import LIMITS

TITLES = {
    "a": "Start: exec of the supervisor → first instruction of the first job",
    "b": "The whole life of one `/bin/true`",
    "c": "Jobs: time until all run, and the supervisor's own memory",
    "d": "Idle with 100 jobs for 20 s",
    "e": "2,000,000 lines of 100 bytes through the log",
    "f": "Restarts, backoff off",
    "g": "Stop: signal → everything is gone",
    "h": "10,000 orphans, as PID 1",
    "i": "200 health checks each second",
    "j": "Control socket and `/metrics`",
    "k": "Events to their listeners",
    "l": "A change in Consul → the job that waits for it runs (`interval: 10`)",
    "m": "Reload of 1,000 unchanged jobs",
    "n": "Size of the programs that must be in the image",
}

COLUMNS = {
    "wall_ms": "ms", "cpu_ms": "CPU ms", "rss_mb": "RSS MB", "pss_mb": "PSS MB", "processes": "processes", "wakeups": "wake-ups",
    "jobs": "jobs", "mb_per_s": "MB/s", "lost": "lost", "disorder": "out of order", "damaged": "damaged", "per_s": "per second",
    "cpu_ms_per_s": "own CPU ms/s", "rss_before_mb": "RSS before", "rss_after_mb": "RSS after", "rss_growth_mb": "RSS growth MB", "zombies": "zombies",
    "lateness_median_ms": "death → next start, median ms", "lateness_max_ms": "longest ms", "own_max_ms": "longest with a core ms", "gap_median_ms": "last act → first act, median ms", "gap_max_ms": "longest ms", "exits": "exits", "core_percent": "% of a core",
    "checks_per_s": "checks/s", "p50_us": "p50 µs", "p99_us": "p99 µs", "bytes": "bytes", "worst_ms": "longest ms", "changes": "changes",
    "restarted": "restarted", "mb": "MB",
}

NOTES = {
    "a": "`stamp` notes the time and becomes the supervisor; the job's first act is to read the same clock. Peers get the cheapest "
         "form there is: run scripts without a shell, and for runit a folder that did not just change.",
    "b": "CPU is that of the supervisor and of `/bin/true`.",
    "c": "CPU is that of the supervisor's own living processes when all jobs run; `nothing` is a loop of `posix_spawn`; `nothing, with pipes` also does what a supervisor must ask of the kernel for each job: a process group, two watched pipes, and the variables `CONTAINERPILOT_*_PID` of the jobs before it.",
    "d": "Wake-ups are context switches of all threads of all its processes. Inits of one process have one job.",
    "e": "The log is a file in memory. The writer writes 64 KiB at a time; CPU includes the writer. Every line is read back: whole, in order, "
         "none missing. supervisord and horust add no time stamp. `nothing` is the writer alone. s6 and runit have one logger process for each job.",
    "f": "s6 and runit wait a second between starts by design.",
    "g": "Measured with (c). runit's `runsvdir` leaves its children to themselves; the jobs' end counts.",
    "h": "They die one after the other, or in batches of 1,000 at once; zombies are counted 100 ms after the last death. Meanwhile a job "
         "ends every 2 ms. "
         "Death and start are the kernel's own notes: when it tells the supervisor of the death, and when the supervisor makes the next "
         "process; \"with a core\" leaves out when it wanted to run and the thousand who die had the cores. From the last act of the one to the first of the other, both wait for their turn among a thousand others besides.",
    "i": "exec: CPU of the probes included; `nothing` starts and waits for as many, evenly spread. monit checks one after the other, once a second.",
    "j": "The client is ours, in C, on the same machine; it shares the cores. The limits are figures of ContainerPilot on another machine with "
         "two cores. \"Restarting\": 100 jobs whose process ends at once, restarted without backoff.",
    "k": "The Registry with real actors as listeners, by criterion; and the whole program, told over its control socket to enter and to leave "
         "maintenance: that is one event each time, and every job is told to rest besides.",
    "n": "s6, runit: the programs used here and their own libraries; supervisord: its Python files and the interpreter without its library.",
}

PLOTS = [
    ("start.svg", "a", "wall_ms", "Start of the first job", "ms", None),
    ("life.svg", "b", "wall_ms", "Life of /bin/true", "ms", None),
    ("jobs.svg", "c", "wall_ms", "Time until all jobs run", "ms", ["100", "1000"]),
    ("memory.svg", "c", "pss_mb", "Memory of the supervisor (PSS)", "MB", ["1", "100", "1000"]),
    ("idle.svg", "d", "wakeups", "Wake-ups in 20 idle seconds", "context switches", None),
    ("log.svg", "e", "mb_per_s", "2,000,000 lines through the log", "MB/s", None),
    ("restarts.svg", "f", "per_s", "Restarts per second", "1/s", None),
    ("stop.svg", "g", "wall_ms", "Stop of all jobs", "ms", None),
    ("orphans.svg", "h", "zombies", "Zombies left of 10,000 orphans", "processes", None),
    ("checks.svg", "i", "core_percent", "200 checks each second", "% of a core", None),
    ("size.svg", "n", "mb", "Size of the programs", "MB", None),
]


def medians(figures, letter, case):
    """Of each peer: the median of each figure."""
    found = {}
    for peer, metrics in figures["samples"].get(letter, {}).get(case, {}).items():
        found[peer] = {name: statistics.median(values) for name, values in metrics.items()}
        if "rss_after_mb" in metrics:
            growth = [after - before for before, after in zip(metrics["rss_before_mb"], metrics["rss_after_mb"])]
            found[peer]["rss_growth_mb"] = max(0, statistics.median(growth))
        # A longest time is the longest of all rounds.
        for name in {"lateness_max_ms", "own_max_ms", "gap_max_ms"} & metrics.keys():
            found[peer][name] = max(metrics[name])
    return found


def limits(figures):
    rows = ["| work | case | figure | ours | must be | that is | reached |", "|---|---|---|---:|---|---:|---|"]
    missed = 0
    for limit in LIMITS:
        case = medians(figures, limit.letter, limit.case)
        ours = case.get("containerpilot", {}).get(limit.metric)
        if limit.letter not in figures["samples"]:
            continue
        bound = limit.bound(case, limit.metric)
        verdict = "not measured" if bound is None or ours is None else "yes" if limit.reached(ours, bound) else "**no**"
        missed += verdict == "**no**"
        shown = "" if bound is None else plot.figure(bound)
        rows.append(f"| ({limit.letter}) | {limit.case} | {COLUMNS[limit.metric]} | {'' if ours is None else plot.figure(ours)} | {limit.text} | {shown} | {verdict} |")
    return rows, missed


def table(figures, letter, case):
    found = medians(figures, letter, case)
    notes = figures["notes"].get(letter, {}).get(case, {})
    if not found and not notes:
        return []
    columns = [name for name in COLUMNS if any(name in metrics for metrics in found.values())]
    rows = []
    if case:
        rows += [f"**{case}**", ""]
    if found:
        rows += ["| | " + " | ".join(COLUMNS[name] for name in columns) + " | rounds |",
                 "|---|" + "---:|" * (len(columns) + 1)]
        for peer, metrics in found.items():
            name = f"**{peer}**" if peer == "containerpilot" else peer
            cells = [plot.figure(metrics[column]) if column in metrics else "" for column in columns]
            rounds = max(len(values) for values in figures["samples"][letter][case][peer].values())
            rows.append(f"| {name} | " + " | ".join(cells) + f" | {rounds} |")
        rows.append("")
    if notes:
        reasons = {}
        for peer, note in notes.items():
            reasons.setdefault(note.replace("\n", " ")[:200], []).append(peer)
        rows += ["; ".join(f"{', '.join(peers)} {reason}" for reason, peers in reasons.items()) + ".", ""]
    return rows


def draw(figures, out):
    """The plots that there are figures for; their names by letter."""
    drawn = {}
    for file, letter, metric, title, unit, cases in PLOTS:
        panels = []
        for case in cases or figures["samples"].get(letter, {}):
            found = medians(figures, letter, case)
            rows = [(peer, metrics[metric]) for peer, metrics in found.items() if metric in metrics]
            higher_is_better = metric in ("mb_per_s", "per_s")
            rows.sort(key=lambda row: row[1], reverse=higher_is_better)
            if rows:
                panels.append((f"{case} job{'s' if case != '1' else ''}" if letter in "cg" else case, rows))
        if panels:
            (out / file).write_text(plot.bars(title, unit, panels))
            drawn.setdefault(letter, []).append((file, title))
    return drawn


def write(figures, out):
    drawn = draw(figures, out)
    rows, missed = limits(figures)
    about = figures["machine"]
    text = [
        "# What we cost, beside our peers", "",
        "Written by `make bench`; do not edit. `figures.json` holds every sample, and `benches/peers/run.py --redraw` draws this page from it.", "",
        f"Measured {figures['date']} on {about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, Linux {about['kernel']}, in "
        f"{figures['seconds'] // 60} minutes. Load of the machine before: {' '.join(figures['load_before'])}, after: {' '.join(figures['load_after'])}"
        + (" (all that was measured ran with real-time priority, before any other work)" if figures["realtime"] else "") +
        f". Our program: {figures['binary_bytes'] / 1e6:.2f} MB. Each work runs under every peer in turns, so that all meet the same machine; figures are medians.", "",
        f"## What we must reach: {'all reached' if not missed else f'{missed} missed'}", "", *rows, ""]
    if figures.get("instructions"):
        text += ["## Instructions of our start", "", *[f"- {line}" for line in figures["instructions"]], ""]
    for letter, title in TITLES.items():
        cases = list(figures["samples"].get(letter, {})) + [
            case for case in figures["notes"].get(letter, {}) if case not in figures["samples"].get(letter, {})]
        body = [row for case in cases for row in table(figures, letter, case)]
        if body:
            text += [f"## ({letter}) {title}", "", *([NOTES[letter], ""] if letter in NOTES else []), *body]
            text += [line for file, name in drawn.get(letter, []) for line in (f"![{name}]({file})", "")]
    (out / "README.md").write_text("\n".join(text).rstrip() + "\n")
