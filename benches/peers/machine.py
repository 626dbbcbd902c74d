"""What /proc tells: processes, their memory, CPU time and wake-ups, and how busy the machine is."""

import ctypes
import os
import platform

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    """Whatever our descendants leave behind becomes our child, so that we can end it."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def read(path):
    """The text of a file, or nothing when its process has just ended."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def stat_of(pid):
    """The fields of /proc/PID/stat after the name: state, parent, …"""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def parents():
    """Every process and its parent."""
    found = {}
    for pid in pids():
        fields = stat_of(pid)
        if fields:
            found[pid] = int(fields[1])
    return found


def descendants(root):
    """All processes below this one, the nearest first."""
    below, children = [], {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    queue = list(children.get(root, []))
    while queue:
        pid = queue.pop(0)
        below.append(pid)
        queue += children.get(pid, [])
    return below


def is_zombie(pid):
    fields = stat_of(pid)
    return bool(fields) and fields[0] == "Z"


def program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def memory_kb(pid):
    """Resident and proportional memory."""
    values = {}
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        words = line.split()
        if words and words[0] in ("Rss:", "Pss:"):
            values[words[0]] = int(words[1])
    return values.get("Rss:", 0), values.get("Pss:", 0)


def cpu_ms(pid):
    """CPU time of all threads that live, to the microsecond where the kernel tells."""
    total = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    for thread in threads:
        words = read(f"/proc/{pid}/task/{thread}/schedstat").split()
        total += int(words[0]) if words else 0
    return total / 1e6


def cpu_with_children_ms(pid):
    """CPU time of a process and of all children that it has waited for, to 10 ms."""
    fields = stat_of(pid)
    return sum(int(field) for field in fields[11:15]) * TICK_MS if fields else 0.0


def switches(pid):
    """How often its threads left the CPU: each is followed by a wake-up."""
    total = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    for thread in threads:
        for line in read(f"/proc/{pid}/task/{thread}/status").splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


def go_before_others(realtime):
    """Lets what we start from now on go before other work of the machine. With real-time priority nothing of it is
    in the way, but among ourselves whoever waits first runs first; else we share fairly, as a heavy session."""
    if realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        return
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    try:
        # The kernel weighs sessions; a niceness would count within ours only.
        os.setsid()
    except PermissionError:
        pass  # We lead one already.
    try:
        with open("/proc/self/autogroup", "w") as file:
            file.write("-20")
    except OSError:
        pass


def load():
    return read("/proc/loadavg").split()[:3]


def describe():
    model = next((line.split(":", 1)[1].strip() for line in read("/proc/cpuinfo").splitlines()
                  if line.startswith("model name")), platform.machine())
    return {"processor": model, "cores": os.cpu_count(), "kernel": platform.release(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)}
