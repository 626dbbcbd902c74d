"""From figures to what people read: the table of limits, a table for each work, plots."""

import statistics

import plot
from limits import LIMITS

TITLES = {
    "a": "Start: from execve(2) of the supervisor to the first instruction of the first job",
    "b": "Start to exit with `/bin/true` as the only job",
    "c": "Jobs: time until all run, and the supervisor's own memory",
    "d": "Idle with 100 jobs for 20 s",
    "e": "2,000,000 lines of 100 bytes through the log",
    "f": "Restarts, without delays",
    "g": "Stop: from the signal until all processes are gone",
    "h": "10,000 orphans, as PID 1",
    "i": "200 health checks each second",
    "j": "Control socket and `/metrics`",
    "k": "Delivery of events",
    "l": "From a change in Consul until the job that waits for it runs (`interval: 10`)",
    "m": "Reload of 1,000 unchanged jobs",
    "n": "Size of the programs that an image needs",
    "o": "Ping while an operator asks, with 1,000 jobs and 10,000 kept events",
}

COLUMNS = {
    "wall_ms": "ms", "cpu_ms": "CPU ms", "rss_mb": "RSS MB", "pss_mb": "PSS MB", "processes": "processes", "wakeups": "wake-ups",
    "jobs": "jobs", "mb_per_s": "MB/s", "lost": "lost", "disorder": "out of order", "damaged": "damaged", "per_s": "per second",
    "cpu_ms_per_s": "own CPU ms/s", "rss_before_mb": "RSS before", "rss_after_mb": "RSS after", "rss_growth_mb": "RSS growth MB", "zombies": "zombies",
    "lateness_median_ms": "exit → next start, median ms", "lateness_max_ms": "longest ms", "own_max_ms": "longest without waiting for a core ms", "gap_median_ms": "last → first instruction, median ms", "gap_max_ms": "longest ms", "exits": "exits", "core_percent": "% of a core",
    "checks_per_s": "checks/s", "p50_us": "p50 µs", "p99_us": "p99 µs", "answer_ms": "answer, p99 ms", "bytes": "bytes", "worst_ms": "longest ms", "changes": "changes",
    "restarted": "restarted", "mb": "MB",
}

NOTES = {
    "a": "A helper reads the clock and executes the supervisor; the job begins by reading the same clock. The other supervisors have "
         "their fastest configuration: run scripts without a shell, and for runit a folder that was not changed just before.",
    "b": "CPU is the time of the supervisor and of `/bin/true`.",
    "c": "CPU is the time of the supervisor's own processes until all jobs run. `nothing` is a loop of `posix_spawn`; `nothing, with pipes` also makes the system calls that a supervisor needs for each job: a process group, two pipes with epoll, and the variables `CONTAINERPILOT_*_PID` of the jobs before it.",
    "d": "Wake-ups are context switches of all threads of the supervisor's processes. Inits for one process have one job.",
    "e": "The log is a file in memory. The job writes 64 KiB at a time; CPU includes the job. Every line is read back and checked: complete, in order, "
         "none missing. `raw`: the job has our standard output, and its writes end within lines, so we log nothing meanwhile. supervisord and horust add no time stamp. `nothing` is the job alone. s6 and runit have one logger process for each job.",
    "f": "s6 and runit wait a second between starts, by design.",
    "g": "Measured with (c). runit's `runsvdir` does not wait for its children, so the time until the jobs have ended counts.",
    "h": "The orphans exit one after the other, or 1,000 at a time; zombies are counted 100 ms after the last exit. Meanwhile a job "
         "exits every 2 ms and is restarted. Exit and start are times of the kernel's trace: when it tells the supervisor of the exit, and when the supervisor "
         "creates the next process. \"Without waiting for a core\" leaves out the time in which the supervisor was ready to run and the orphans had the cores. "
         "\"Last → first instruction\" is the time between two runs of the job as the job itself sees it.",
    "i": "exec: CPU includes the commands of the checks; `nothing` starts and waits for as many commands, evenly spread. monit does its checks one after the other, once a second.",
    "j": "The client is a C program on the same cores. The limits are figures of ContainerPilot 3.8 on another machine with "
         "two cores. \"Restarting\": 100 jobs whose processes end at once are restarted without delay.",
    "k": "The Registry with actors as subscribers, measured with criterion; and the whole program, which enters and leaves maintenance "
         "by its control socket: each time one event is published, and every job gets a command.",
    "n": "s6 and runit: the programs used here and their own libraries. supervisord: its Python files and the interpreter, without Python's library.",
    "o": "One client asks for the same thing again and again, another one pings 2 ms after each answer. 100 of the jobs have failed "
         "ten times and have filled what is kept of their output: together 8 MiB, and 4 MiB of dossiers.",
}

PLOTS = [
    ("start.svg", "a", "wall_ms", "Start of the first job", "ms", None),
    ("life.svg", "b", "wall_ms", "Start to exit with /bin/true", "ms", None),
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
    rows = ["| work | case | figure | containerpilot | goal | as a figure | reached |", "|---|---|---|---:|---|---:|---|"]
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


def repeated(figures):
    """Which figures are of another run than the rest."""
    works = []
    for letter, cases in sorted(figures.get("repeated", {}).items()):
        runs = {}
        for case, run in cases.items():
            measured = figures["samples"].get(letter, {}).get(case, {})
            peers = "" if set(measured) <= set(run["peers"]) else f" of {', '.join(run['peers'])}"
            runs.setdefault((run["date"], peers), []).append(case)
        for (date, peers), found in runs.items():
            names = "" if len(found) == len(figures["samples"].get(letter, {})) else " " + ", ".join(found)
            works.append(f"({letter}){names}{peers} on {date}")
    return [f"Figures of other runs than the rest, perhaps of another version of the program: {'; '.join(works)}.", ""] if works else []


def write(figures, out):
    drawn = draw(figures, out)
    rows, missed = limits(figures)
    about = figures["machine"]
    text = [
        "# Benchmarks: containerpilot and other supervisors", "",
        "Written by `make bench`; do not edit. `figures.json` holds every sample; `benches/peers/run.py --redraw` writes this page from it.", "",
        f"Measured {figures['date']} on {about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, Linux {about['kernel']}, in "
        f"{figures['seconds'] // 60} minutes. Load of the machine before: {' '.join(figures['load_before'])}, after: {' '.join(figures['load_after'])}"
        + (" (everything measured had real-time priority)" if figures["realtime"] else "") +
        f". containerpilot: {figures['binary_bytes'] / 1e6:.2f} MB. The supervisors take turns, so that all run under the same conditions; figures are medians.", "",
        *repeated(figures),
        f"## Goals: {'all reached' if not missed else f'{missed} missed'}", "", *rows, ""]
    if figures.get("instructions"):
        text += ["## Instructions at the start", "", *[f"- {line}" for line in figures["instructions"]], ""]
    for letter, title in TITLES.items():
        cases = list(figures["samples"].get(letter, {})) + [
            case for case in figures["notes"].get(letter, {}) if case not in figures["samples"].get(letter, {})]
        body = [row for case in cases for row in table(figures, letter, case)]
        if body:
            text += [f"## ({letter}) {title}", "", *([NOTES[letter], ""] if letter in NOTES else []), *body]
            text += [line for file, name in drawn.get(letter, []) for line in (f"![{name}]({file})", "")]
    (out / "README.md").write_text("\n".join(text).rstrip() + "\n")
