"""What happens to the program during the soak: a service that answers its checks, a Consul that comes and goes, clients
of the control socket, good and bad, and reloads."""

import asyncio
import itertools
import json
import random
import signal
import time
import urllib.parse

from configuration import KINDS, WATCHES, configuration

# Others may take most of the processors for a while.
TIME_LIMIT = 30


class Failed(Exception):
    """The program did not do what it must."""


async def service(port):
    """The server that http and tcp checks ask. Most answers are good; some are bad, late, cut off, or no HTTP."""
    count = itertools.count()

    async def answer(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            body = b"all is well\n"
            match next(count) % 23:
                case 0:
                    body = b"all is lost\n"
                case 1:
                    await asyncio.sleep(3)
                case 2:
                    writer.write(b"\x16\x03\x01 not HTTP\r\n\r\n")
                case 3:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nall is")
                    return
                case 4:
                    body *= 20_000
                case 5:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nall is \r\n4\r\nwell\r\n0\r\n\r\n")
                    return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the soak is over
        finally:
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", port)


class Consul:
    """A real Consul in development mode. Each start has lost everything."""

    def __init__(self, program, ports, directory):
        self.program, self.ports, self.directory = program, ports, directory
        self.process = None

    async def start(self):
        """Starts it and waits until it serves."""
        log = (self.directory / "consul.log").open("w")
        command = ["agent", "-dev", "-log-level=warn", "-bind=127.0.0.1", "-dns-port=-1", "-grpc-port=-1"]
        numbers = [("http-port", "consul"), ("server-port", "raft"), ("serf-lan-port", "gossip")]
        command += ["-serf-wan-port=-1", *(f"-{flag}={self.ports[name]}" for flag, name in numbers)]
        self.process = await asyncio.create_subprocess_exec(self.program, *command, stdout=log, stderr=log)
        for _ in range(300):
            try:
                status, text = await self.ask("GET", "/v1/health/service/consul")
                if status == 200 and "serfHealth" in text:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.1)
        raise Failed("Consul does not start")

    async def ask(self, method, path, body=""):
        """One request."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["consul"])
        return await exchange(reader, writer, method, path, body, "1.0")  # an answer without chunks

    async def services(self):
        """The ids of the services that its agent knows."""
        return sorted(json.loads((await self.ask("GET", "/v1/agent/services"))[1]))

    async def stop(self):
        """Ends it at once."""
        if self.process and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def come_and_go(self):
        """Each minute it restarts without its state, or hangs for a while; between, keys and services change."""
        for turn in itertools.count(1):
            await self.change_for(40)
            if turn % 3:
                await self.stop()
                await asyncio.sleep(random.uniform(3, 12))
                await self.start()
            else:
                self.process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(8)
                self.process.send_signal(signal.SIGCONT)

    async def change_for(self, seconds):
        """Changes keys for this long."""
        for turn in range(seconds):
            try:
                await self.ask("PUT", f"/v1/kv/soak/{random.randrange(WATCHES)}", str(turn))
            except (OSError, asyncio.TimeoutError):
                pass
            await asyncio.sleep(1)


async def exchange(reader, writer, method, path, body="", version="1.1"):
    """Sends a request and reads the whole answer: status and text."""
    try:
        head = f"{method} {path} HTTP/{version}\r\nHost: soak\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        # Not `wait_for`, which in Python 3.11 loses a cancellation that comes just when the answer does.
        async with asyncio.timeout(TIME_LIMIT):
            answer = await reader.read(-1)
        head, _, text = answer.decode(errors="replace").partition("\r\n\r\n")
        if not head.startswith("HTTP/1."):
            raise Failed(f"no answer to {method} {path}: {answer[:100]!r}")
        return int(head.split()[1]), text
    finally:
        writer.close()


class Clients:
    """Clients of the control socket and of telemetry."""

    def __init__(self, directory, ports, program):
        self.directory, self.ports, self.program = directory, ports, program
        self.socket = str(directory / "control.sock")
        self.config = directory / "config.json5"
        self.counts = {"requests": 0, "bad": 0, "events": 0, "reloads": 0, "refused reloads": 0, "commands": 0}
        # One at a time: a command for a job that a reload removes is refused, and a second reload, too.
        self.turn = asyncio.Lock()

    async def control(self, method, path, body=""):
        """One request to the control socket."""
        self.counts["requests"] += 1
        began = time.monotonic()
        try:
            return await exchange(*await asyncio.open_unix_connection(self.socket), method, path, body)
        except OSError as error:
            raise Failed(f"{method} {path}: {error!r} after {time.monotonic() - began:.2f} s") from error

    async def telemetry(self, path):
        """One request to the telemetry port."""
        self.counts["requests"] += 1
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["telemetry"])
        return await exchange(reader, writer, "GET", path)

    def tasks(self):
        """Everything that goes on at the same time."""
        return [
            self.look(), self.stream(), self.stream(), self.sleepy_stream(), self.command(), self.misbehave(),
            self.reload(), self.maintain(),
        ]

    async def look(self):
        """Status and metrics, as a monitoring system asks."""
        while True:
            status, text = await self.control("GET", "/v3/status")
            expect(status == 200 and len(json.loads(text)["jobs"]) > 150, f"/v3/status: {status}")
            status, text = await self.telemetry("/metrics")
            expect(status == 200 and "soak_total" in text, f"/metrics: {status}")
            await self.telemetry("/readyz")
            await asyncio.sleep(1)

    async def stream(self):
        """Reads the stream of events for a while, then again."""
        while True:
            reader, writer = await asyncio.open_unix_connection(self.socket)
            writer.write(b"GET /v3/events HTTP/1.1\r\nHost: soak\r\n\r\n")
            try:
                async with asyncio.timeout(random.uniform(10, 40)):
                    while chunk := await reader.read(65536):
                        self.counts["events"] += chunk.count(b"data: ")
            except TimeoutError:
                pass
            writer.close()

    async def sleepy_stream(self):
        """Asks for events and reads none."""
        while True:
            reader, writer = await asyncio.open_unix_connection(self.socket, limit=1)
            writer.write(b"GET /v3/events?since=0 HTTP/1.1\r\nHost: soak\r\n\r\n")
            await asyncio.sleep(25)
            writer.transport.abort()

    async def command(self):
        """Starts, stops, restarts and signals jobs, sets variables and metrics."""
        kinds = [kind for kind in KINDS if kind != "tick"]
        for turn in itertools.count():
            kind = random.choice(kinds)
            name = urllib.parse.quote(f"{kind}-{random.randrange(KINDS[kind])}")
            async with self.turn:
                order = ("stop", "restart", "signal")[turn % 3]
                body = '{"signal": "SIGUSR1"}' if order == "signal" else ""
                status, text = await self.control("PUT", f"/v3/jobs/{name}/{order}", body)
                expect(status in (200, 404, 409), f"{order} {name}: {status} {text}")
                if order == "stop":
                    await asyncio.sleep(0.5)
                    await self.control("PUT", f"/v3/jobs/{name}/start")
            status, _ = await self.control("PUT", "/v3/environ", json.dumps({"SOAK_TURN": str(turn), "GONE": None}))
            expect(status == 200, f"/v3/environ: {status}")
            status, _ = await self.control("PUT", "/v3/metric", '{"soak_total": 1}')
            expect(status == 200, f"/v3/metric: {status}")
            self.counts["commands"] += 1
            if turn % 5 == 0:
                self.program.send_signal(signal.SIGUSR2)
            await asyncio.sleep(0.5)

    async def misbehave(self):
        """Clients that no server likes."""
        requests = [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET /v3/ping HTTP/1.1\r\n",
            b"GET /v3/status HTTP/1.1\r\nHost: x\r\n\r\n" * 500,
            b"PUT /v3/environ HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 100_000,
            b"PUT /v3/reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"PUT /v3/jobs/%ff/start HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        ]
        # All of them within the first minute: what a crowd needs at a time is then part of the first figures, too.
        for request in itertools.cycle(requests):
            for path in (self.socket, None):
                crowd = [await self.rude(path, request) for _ in range(130)]
                await asyncio.sleep(random.uniform(0.5, 3))
                for writer in filter(None, crowd):
                    writer.transport.abort()
                await asyncio.sleep(1)

    async def rude(self, path, request):
        """A client of the control socket at this path, or of telemetry, that sends a request and reads nothing."""
        try:
            if path:
                reader, writer = await asyncio.open_unix_connection(path)
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["telemetry"])
        except OSError:
            return None
        reader._transport.pause_reading()
        writer.write(request)
        self.counts["bad"] += 1
        return writer

    async def reload(self):
        """Reloads that change some jobs; each fifth is a bad one and must change nothing."""
        for turn in itertools.count(1):
            await asyncio.sleep(8)
            async with self.turn:
                if turn % 5 == 0:
                    await self.configure("{jobs: [{name: 'a', exce: 'b'}]}")
                    status, text = await self.control("PUT", "/v3/reload")
                    expect(status == 422 and "exce" in text, f"a bad reload: {status} {text}")
                    self.counts["refused reloads"] += 1
                else:
                    await self.reload_to(turn)

    async def reload_to(self, variant):
        """A reload to this variant; it may have to wait for one that is under way."""
        await self.configure(configuration(self.directory, self.ports, variant))
        for _ in range(60):
            status, text = await self.control("PUT", "/v3/reload")
            if status != 409:
                break
            await asyncio.sleep(0.5)
        expect(status == 200, f"a reload: {status} {text}")
        self.counts["reloads"] += 1

    async def configure(self, text):
        """Writes the configuration, in a thread: while the disk is busy, the other clients go on."""
        await asyncio.to_thread(self.config.write_text, text)

    async def maintain(self):
        """Maintenance for some seconds, now and then."""
        while True:
            await asyncio.sleep(50)
            await self.control("PUT", "/v3/maintenance/enable")
            await asyncio.sleep(5)
            await self.control("PUT", "/v3/maintenance/disable")


def expect(holds, text):
    """Says what does not hold."""
    if not holds:
        raise Failed(text[:500])
