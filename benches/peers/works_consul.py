"""The work about discovery: (l), with a real Consul."""

import http.client
import json
import os
import subprocess
import time
from pathlib import Path

import running
from running import Cannot, Run, wait_until
from works import Work
from works_control import free_port


class Consul:
    """An agent in development mode on ports of its own."""

    def __init__(self, program, folder):
        self.port = free_port()
        command = [program, "agent", "-dev", "-bind=127.0.0.1", "-dns-port=-1", "-grpc-port=-1", "-serf-wan-port=-1",
                   f"-http-port={self.port}", f"-server-port={free_port()}", f"-serf-lan-port={free_port()}"]
        with open(os.path.join(folder, "consul.log"), "w") as log:
            self.agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.serves, 60, "Consul serves", 0.1)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def serves(self):
        try:
            status, body = self.ask("GET", "/v1/health/service/consul")
        except OSError:
            return False
        return status == 200 and "serfHealth" in body


class Discovery(Work):
    letter, title = "l", "a change in Consul → the first instruction of the job that waits for it, `interval: 10`"
    changes = 20

    def rounds(self, asked, case, adapter):
        return 1

    def takes_part(self, case, adapter):
        return adapter.name == "containerpilot"

    def measure(self, bench, case, adapter):
        script = Path(__file__).resolve().parent.parent.parent / "scripts/fetch-consul.sh"
        found = subprocess.run([str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode != 0:
            raise Cannot("there is no Consul here")
        with Run(bench.helper) as run:
            consul = Consul(found.stdout.strip(), run.dir)
            run.start(adapter.configured(
                run, [{"name": "app", "exec": [bench.helper("tick"), run.stamps], "when": {"source": "watch.db", "each": "changed"}},
                      {"name": "stays", "exec": [bench.helper("probe"), run.path("stays")]}],
                consul=f"127.0.0.1:{consul.port}", watches=[{"name": "db", "interval": 10}]))
            wait_until(lambda: run.count(run.path("stays")), 30, "the jobs run")
            # The watch has asked before the first change comes.
            time.sleep(2)
            waits = []
            for change in range(self.changes):
                before = time.monotonic_ns()
                consul.ask("PUT", "/v1/agent/service/register", {"ID": "db-1", "Name": "db", "Address": "192.0.2.1", "Port": 1000 + change})
                wait_until(lambda: run.count() > change, 30, "the job runs", 0.001)
                waits.append((run.times()[change] - before) / 1e6)
                time.sleep(0.3)
            return {"wall_ms": sorted(waits)[len(waits) // 2], "worst_ms": max(waits), "changes": len(waits)}
