"""The configuration of the soak: 200 jobs of mixed behaviour, coprocesses and watches, and its changes at reloads."""

import json
import shlex

# How many jobs of each kind; together 200.
KINDS = {
    "tick": 40,
    "crash": 30,
    "exec-checked": 8,
    "http-checked": 10,
    "tcp-checked": 6,
    "chatty": 20,
    "orphaning": 20,
    "stubborn": 16,
    "triggered": 30,
    "waiting": 20,
}
COPROCESSES = 8
WATCHES = 8

CHATTER = (
    "while :; do i=0; while [ $i -lt 25 ]; do echo \"line $i of $$: all is well here, and there is more to say\"; "
    "i=$((i+1)); done; sleep 1; done"
)
# One orphan stays in the process group of the job, one leaves it.
ORPHANS = "(sleep 2 &); (setsid sleep 3 &); exit 0"
DEAF = "trap '' TERM; while :; do sleep 4; done"


def talking(text):
    """A command that prints ten lines, so that what is kept of the output of each job (64 KiB) is soon full."""
    return ["seq", "-f", f"{text}: line %g of what it has to say each time", "10"]


def job(kind, number, ports):
    """The job of a kind with this number, without what a reload changes."""
    name = f"{kind}-{number}"
    served = {"port": 20000 + number, "interfaces": ["static:127.0.0.1"], "tags": ["soak"]}
    sleeper = {"exec": ["sleep", "infinity"], "restarts": "unlimited"}
    checked = {"name": name, **sleeper, **served}
    match kind:
        case "tick":
            return {"name": name, "exec": talking(f"tick {number}"), "when": {"interval": f"{2 + number % 8}s"}}
        case "crash":
            return {
                "name": name,
                "exec": ["sh", "-c", f"{shlex.join(talking('failing'))}; exit {1 + number % 5}"],
                "restarts": "unlimited",
                "backoff": {"max": f"{2 + number % 6}s"},
            }
        case "exec-checked":
            # Fails for a fifth of each minute.
            command = ["sh", "-c", f"[ $(( ($(date +%s) + {7 * number}) % 60 )) -lt 48 ]"]
            return {**checked, "health": {"exec": command, "interval": 5, "ttl": 15}}
        case "http-checked":
            url = f"http://127.0.0.1:{ports['service']}/{number}"
            return {**checked, "health": {"http": {"url": url, "contains": "well"}, "interval": 3, "timeout": "2s"}}
        case "tcp-checked":
            return {**checked, "health": {"tcp": f"127.0.0.1:{ports['service']}", "interval": 3}}
        case "chatty":
            return {"name": name, "exec": ["sh", "-c", CHATTER], "restarts": "unlimited"}
        case "orphaning":
            return {"name": name, "exec": ["sh", "-c", ORPHANS], "when": {"interval": f"{4 + number % 5}s"}}
        case "stubborn":
            return {
                "name": name,
                "exec": ["sh", "-c", DEAF],
                "restarts": "unlimited",
                "timeout": f"{20 + number}s",
                "killTimeout": "300ms",
            }
        case "triggered":
            return {"name": name, "exec": talking("triggered"), "when": trigger(number)}
        case _:
            return {"name": name, **sleeper, "when": {"source": f"tick-{number}", "once": "exitSuccess"}}


def trigger(number):
    """The event that starts a triggered job."""
    sources = [
        (f"tick-{number}", "exitSuccess"),
        (f"crash-{number}", "exitFailed"),
        (f"http-checked-{number % 10}", "unhealthy"),
        (f"exec-checked-{number % 8}", "healthy"),
        (f"watch.watched-{number % WATCHES}", "changed"),
        ("SIGUSR2", None),
    ]
    source, event = sources[number % len(sources)]
    return {"source": source} if event is None else {"source": source, "each": event}


def watch(number):
    """A watch of one of our own services, or of a key."""
    if number % 2:
        return {"name": f"watched-{number}", "key": f"soak/{number}", "interval": 5}
    return {"as": f"watched-{number}", "name": f"http-checked-{number}", "interval": 5}


def configuration(directory, ports, variant=0):
    """The configuration as a reload finds it: variant 0 is the first one, others lack, add and change some jobs."""
    jobs = [job(kind, number, ports) for kind, count in KINDS.items() for number in range(count)]
    if variant:
        # Jobs that others wait for stay.
        gone = {f"{kind}-{(variant * 7 + step) % KINDS[kind]}" for kind in ("chatty", "orphaning") for step in range(3)}
        jobs = [job for job in jobs if job["name"] not in gone]
        for job_ in jobs:
            kind, number = job_["name"].rsplit("-", 1)
            if kind in ("chatty", "stubborn", "http-checked") and int(number) % 5 == variant % 5:
                job_["env"] = {"VARIANT": str(variant)}
        jobs += [
            {"name": f"added-{variant}-{number}", "exec": ["sleep", "infinity"], "restarts": "unlimited"}
            for number in range(6)
        ]
    coprocess = ["sh", "-c", f"{shlex.join(talking('beside'))}; exec sleep 15"]
    return json.dumps(
        {
            "consul": f"127.0.0.1:{ports['consul']}",
            "control": {"socket": str(directory / "control.sock")},
            "telemetry": {
                "port": ports["telemetry"],
                "interfaces": ["static:127.0.0.1"],
                "metrics": [{"name": "soak_total", "type": "counter", "help": "Values that clients have sent."}],
            },
            "logging": {"level": "INFO", "format": "json"},
            "jobs": jobs,
            "coprocesses": [
                {"name": f"beside-{number}", "command": coprocess, "restarts": "unlimited"}
                for number in range(COPROCESSES)
            ],
            "watches": [watch(number) for number in range(WATCHES)],
            "stopTimeout": "20s",
        },
        indent=1,
    )


assert sum(KINDS.values()) == 200
