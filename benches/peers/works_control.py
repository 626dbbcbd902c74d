"""The works about what we offer beside supervision: (i) checks, (j) control and metrics, (k) events, (m) reload."""

import http.client
import json
import socket
import struct
import subprocess
import time

import machine
from adapters import Bare, Job, Monit
from running import Cannot, Run, TooSlow, wait_until
from works import Work, settle


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("bench", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


def ask(run, method, path):
    connection = UnixConnection(run.path("control"))
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


class Checks(Work):
    letter, title = "i", "200 health checks at 1 s: CPU, that of their processes included"
    cases = ["exec", "http", "tcp"]
    number, seconds = 200, 10

    def rounds(self, asked, case, adapter):
        return min(asked, 3)

    def takes_part(self, case, adapter):
        fits = isinstance(adapter, Bare) and case == "exec" or isinstance(adapter, Monit) and case != "exec"
        return adapter.name == "containerpilot" or fits

    def measure(self, bench, case, adapter):
        with Run(bench.helper) as run:
            counts = run.write("\0" * 16, "counts")
            port = free_port()
            server = subprocess.Popen([bench.helper("httpd"), str(port), counts])
            command = self.command(bench, run, adapter, case, port)
            run.start(command)
            # Past the first second, in which checks come sooner.
            time.sleep(4)
            before = self.state(run, counts, case)
            time.sleep(self.seconds)
            after = self.state(run, counts, case)
            server.kill()
            server.wait()
            checks = (after["checks"] - before["checks"]) / self.seconds
            if checks < 0.9 * self.number:
                raise TooSlow(f"only {checks:.0f} checks a second: {run.output_tail()}")
            return {"core_percent": (after["cpu_ms"] - before["cpu_ms"]) / self.seconds / 10, "checks_per_s": checks}

    def command(self, bench, run, adapter, case, port):
        if isinstance(adapter, Bare):
            return [bench.helper("bare"), "paced", str(self.number), bench.helper("tick"), run.stamps]
        if isinstance(adapter, Monit):
            test = "port {} protocol http".format(port) if case == "http" else f"port {port}"
            return adapter.polling(run, "".join(
                f"check host h{index} with address 127.0.0.1\n  if failed {test} then alert\n" for index in range(self.number)))
        probe = {"exec": [bench.helper("tick"), run.stamps]} if case == "exec" else \
            {"http": f"http://127.0.0.1:{port}/"} if case == "http" else {"tcp": f"127.0.0.1:{port}"}
        return adapter.configured(run, [
            {"name": f"job-{index}", "exec": [bench.helper("probe"), run.path("jobs")], "health": {**probe, "interval": 1, "ttl": 5}}
            for index in range(self.number)])

    @staticmethod
    def state(run, counts, case):
        if case == "exec":
            return {"checks": run.count(), "cpu_ms": machine.cpu_with_children_ms(run.process.pid)}
        with open(counts, "rb") as file:
            connections, requests = struct.unpack("=QQ", file.read())
        return {"checks": requests if case == "http" else connections, "cpu_ms": sum(map(machine.cpu_ms, run.own()))}


class Control(Work):
    letter, title = "j", "control socket and `/metrics`: requests per second"
    cases = [f"{what}, {connections}, {state}" for state in ("idle", "100 restarting jobs")
             for what in ("ping", "/metrics") for connections in ("1 connection", "10 connections")]
    milliseconds = 1000
    crowded = True

    def takes_part(self, case, adapter):
        return adapter.name == "containerpilot"

    def measure(self, bench, case, adapter):
        what, connections, state = case.split(", ")
        port = free_port()
        with Run(bench.helper) as run:
            jobs = [Job(bench.helper("probe"), run.stamps)] * 10 if state == "idle" \
                else [Job(bench.helper("tick"), run.stamps, restart=True)] * 100
            run.start(adapter.many(run, jobs, telemetry={"port": port, "interfaces": ["lo"]}))
            run.await_stamps(len(jobs), 60)
            settle(run)
            address, path = (run.path("control"), "/v3/ping") if what == "ping" else (str(port), "/metrics")
            before = machine.cpu_ms(run.process.pid)
            figures = load(bench, address, "GET", path, int(connections.split()[0]), self.milliseconds)
            return {**figures, "cpu_ms": machine.cpu_ms(run.process.pid) - before}


def begin_load(bench, address, method, path, connections, milliseconds, pause_us=0):
    command = [bench.helper("load"), address, method, path, str(connections), str(milliseconds), str(pause_us)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def load(*arguments):
    return end_load(begin_load(*arguments))


def end_load(client):
    printed, complaint = client.communicate()
    if client.returncode != 0:
        raise TooSlow(f"the client: {complaint.decode()}")
    answered, spent, median, p99, refused, size = map(int, printed.split())
    if refused:
        raise TooSlow(f"{refused} of {answered} answers were errors")
    return {"per_s": answered / (spent / 1e9), "p50_us": median / 1e3, "p99_us": p99 / 1e3, "bytes": size}


class Asked(Work):
    """One client asks for one thing again and again; another one pings, with pauses, so that each stall of the program is
    seen by one ping at most."""
    letter, title = "o", "ping while an operator asks: 1,000 jobs, 10,000 kept events"
    paths = {"nothing": None, "status": "/v3/status", "events": "/v3/events?since=0&wait=0", "why": "/v3/jobs/job-0/why",
             "graph, JSON": "/v3/graph?format=json", "graph, SVG": "/v3/graph?format=svg", "graph, text": "/v3/graph",
             "ready": "/v3/ready", "crashes": "/v3/crashes", "logs": "/v3/logs?n=1000000", "report": "/v3/report", "/metrics": "/metrics"}
    cases = list(paths)
    milliseconds, pause_us = 4000, 2000

    def rounds(self, asked, case, adapter):
        return min(asked, 3)

    def takes_part(self, case, adapter):
        return adapter.name == "containerpilot"

    def measure(self, bench, case, adapter):
        port = free_port()
        with Run(bench.helper) as run:
            entries = [{"name": f"job-{index}", "exec": [bench.helper("probe"), run.stamps]} for index in range(899)]
            failing = {"exec": ["sh", "-c", "seq 20000; exit 1"], "restarts": 12, "backoff": {"max": "0s"}}
            entries += [{"name": f"failing-{index}", **failing} for index in range(100)]
            # Its runs fill the list of events.
            busy = {"name": "busy", "exec": [bench.helper("tick"), run.stamps], "restarts": 10_000, "backoff": {"max": "0s"}}
            run.start(adapter.configured(run, [*entries, busy], telemetry={"port": port, "interfaces": ["lo"]}))
            run.await_stamps(899 + 10_001, 60)
            wait_until(lambda: ask(run, "GET", "/v3/status")[1].count(b"no restart left") == 100, 30, "all failures", 0.2)
            settle(run)
            asking = None
            if path := self.paths[case]:
                address = str(port) if case == "/metrics" else run.path("control")
                asking = begin_load(bench, address, "GET", path, 1, self.milliseconds + 200)
                time.sleep(0.1)
            pings = load(bench, run.path("control"), "GET", "/v3/ping", 1, self.milliseconds, self.pause_us)
            figures = {"p50_us": pings["p50_us"], "p99_us": pings["p99_us"]}
            if asking:
                answers = end_load(asking)
                figures |= {"per_s": answers["per_s"], "answer_ms": answers["p99_us"] / 1e3, "bytes": answers["bytes"]}
            return figures


class Events(Work):
    """Two ways: the Registry alone, as criterion measured it, and the whole program, told by its control socket to
    enter and leave maintenance, which is one event each time; jobs listen and none of them starts anything."""
    letter, title = "k", "events per second, to their listeners"
    cases = [f"{jobs} jobs, {listeners}{way}" for way in ("", ", over the control socket")
             for listeners in ("one listener", "all listen") for jobs in (10, 100, 1000)]

    def rounds(self, asked, case, adapter):
        return min(asked, 5) if "control" in case else 1

    def takes_part(self, case, adapter):
        return adapter.name == "containerpilot"

    def measure(self, bench, case, adapter):
        jobs, listeners = int(case.split()[0]), case.split(", ")[1]
        if "control" not in case:
            return self.from_criterion(bench, jobs, listeners)
        with Run(bench.helper) as run:
            deaf = {"all": [{"source": "never", "once": "exitFailed"}, {"source": "never", "once": "exitSuccess"}]}
            listening = {"all": [{"once": "enterMaintenance"}, {"source": "never", "once": "exitFailed"}]}
            entries = [{"name": f"job-{index}", "exec": "true", "when": listening if index == 0 or listeners == "all listen" else deaf}
                       for index in range(jobs)]
            entries.append({"name": "never", "exec": [bench.helper("probe"), run.stamps]})
            run.start(adapter.configured(run, entries))
            run.await_stamps(1, 60)
            settle(run)
            figures = load(bench, run.path("control"), "PUT", "/v3/maintenance/enable|/v3/maintenance/disable", 1, 1000)
            return {"per_s": figures["per_s"], "p99_us": figures["p99_us"]}

    @staticmethod
    def from_criterion(bench, jobs, listeners):
        """Each iteration of that bench delivers a thousand events."""
        path = bench.target / "criterion/registry" / f"{jobs} jobs, {listeners}" / "new/estimates.json"
        if not path.exists():
            raise Cannot("run `cargo bench --bench registry` first")
        nanoseconds = json.loads(path.read_text())["median"]["point_estimate"]
        return {"per_s": 1000 / (nanoseconds / 1e9)}


class Reload(Work):
    letter, title = "m", "reload of 1,000 unchanged jobs"

    def takes_part(self, case, adapter):
        return adapter.name == "containerpilot"

    def measure(self, bench, case, adapter):
        number = 1000
        with Run(bench.helper) as run:
            run.start(adapter.many(run, [Job(bench.helper("probe"), run.stamps)] * number))
            run.await_stamps(number, 120)
            settle(run)
            cpu, before = machine.cpu_ms(run.process.pid), time.monotonic_ns()
            status, body = ask(run, "PUT", "/v3/reload")
            wall = (time.monotonic_ns() - before) / 1e6
            if status != 200 or len(json.loads(body)["kept"]) != number:
                raise TooSlow(f"{status}: {body[:200]}")
            cpu = machine.cpu_ms(run.process.pid) - cpu
            time.sleep(0.1)
            return {"wall_ms": wall, "cpu_ms": cpu, "restarted": run.count() - number}
