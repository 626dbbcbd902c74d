#!/usr/bin/env python3
"""Runs the program for an hour with 200 jobs, a Consul that comes and goes, clients and reloads, and compares what it uses
at the end with what it used after a warm-up. Exits with 1 if that is not the same, if the program did something
wrong, or if something is left when it has ended.

    make soak                      an hour
    make soak SOAK_SECONDS=300     five minutes, which shows only large leaks
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from configuration import configuration  # noqa: E402
from load import Clients, Consul, Failed, expect, service  # noqa: E402
from measure import AT_REST, SINCE_THE_FIRST_MINUTE, UNDER_LOAD, Sampler, compare, marked, slope  # noqa: E402

# Until then the program fills what it keeps on purpose: events, the output of jobs, and what is known of crashes. That takes a
# quarter of an hour.
LONGEST_WARM_UP = 900
EACH = 10
# Longer than idle connections are kept, ours to Consul and those of clients.
REST = 80
KEPT_LOG = 16 << 20
# The longest shutdown: the configuration's stopTimeout, and some seconds for a busy machine.
LONGEST_SHUTDOWN = 30


def main():
    """Runs it and prints the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--program", default=str(ROOT / "target/release/containerpilot"))
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.seconds < 300:
        parser.error("--seconds: expected at least 300")
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="soak.") as directory:
        soak = Soak(arguments, Path(directory))
        try:
            asyncio.run(soak.run())
        except (Failed, OSError, ValueError, TimeoutError) as error:
            soak.complaints.append(f"{error}" if isinstance(error, Failed) else f"the soak itself failed: {error!r}")
        return soak.conclude()


def free_ports(names):
    """
    A free TCP port for each name. Neither the kernel, for an outgoing connection, nor another test takes one of these
    (tests/support/ports.rs): it could be Consul's while Consul is down.
    """
    candidates = random.SystemRandom().sample(range(32000, 32768), 100)
    ports = [port for port in candidates if is_free(port)]
    return dict(zip(names, ports[:len(names)], strict=True))


def is_free(port):
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Soak:
    """One run."""

    def __init__(self, arguments, directory):
        self.seconds, self.program_path, self.directory = arguments.seconds, arguments.program, directory
        self.warm_up = min(LONGEST_WARM_UP, self.seconds // 4)
        self.ports = free_ports(["consul", "raft", "gossip", "telemetry", "service"])
        self.mark = f"SOAK_MARK={uuid.uuid4()}"
        self.complaints, self.samples, self.rests = [], [], []
        self.log = bytearray()
        self.lines = 0
        self.clients = None
        self.program = None

    async def run(self):
        """Everything, in order."""
        fetched = subprocess.run([ROOT / "scripts/fetch-consul.sh"], stdout=subprocess.PIPE, text=True, check=True)
        self.consul = Consul(fetched.stdout.strip(), self.ports, self.directory)
        serving = await service(self.ports["service"])
        await self.consul.start()
        await self.start_program()
        reading = asyncio.create_task(self.read_log())
        try:
            await self.soak()
            await self.shut_down()
            await reading
        finally:
            if self.program.returncode is None:
                self.program.kill()
                await self.program.wait()
                for pid, _ in marked(self.mark):  # nobody else ends them now
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            await self.consul.stop()
            serving.close()

    async def start_program(self):
        """Starts the program and waits for its control socket."""
        config = self.directory / "config.json5"
        config.write_text(configuration(self.directory, self.ports))
        environment = dict([*os.environ.items(), self.mark.split("=")])
        self.program = await asyncio.create_subprocess_exec(
            self.program_path, "-config", str(config), env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, limit=1 << 20,
        )
        self.clients = Clients(self.directory, self.ports, self.program)
        for _ in range(100):
            if (self.directory / "control.sock").exists():
                return
            await asyncio.sleep(0.1)
        raise Failed("the control socket does not appear")

    async def read_log(self):
        """Reads the log and keeps its end."""
        while chunk := await self.program.stdout.read(1 << 16):
            self.lines += chunk.count(b"\n")
            self.log += chunk
            del self.log[:-KEPT_LOG]

    async def soak(self):
        """Load, with a rest after the warm-up and at the end."""
        self.sampler, self.began = Sampler(self.program.pid, self.ports["consul"]), time.monotonic()
        await self.under_load(self.began + self.warm_up)
        await self.rest()
        await self.under_load(self.began + self.seconds)
        await self.rest()

    async def under_load(self, until):
        """Clients and changes until then, with a look now and then."""
        tasks = [asyncio.create_task(task) for task in [*self.clients.tasks(), self.consul.come_and_go()]]
        try:
            while (left := until - time.monotonic()) > 0:
                done, _ = await asyncio.wait(tasks, timeout=min(left, EACH), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    name = task.get_coro().__name__
                    raise error if isinstance(error, Failed) else Failed(f"the client {name!r} failed: {error!r}")
                self.look(self.samples)
                expect(self.program.returncode is None, "the program has ended")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def rest(self):
        """Takes away clients and changes, loads the first configuration, and looks when all has settled."""
        await self.consul.stop()
        await self.consul.start()
        await self.clients.control("PUT", "/v3/maintenance/disable")
        await self.clients.reload_to(0)
        await asyncio.sleep(REST)
        looks = []
        for _ in range(10):
            await asyncio.sleep(1)
            self.look(looks)
        self.rests.append(looks)

    def look(self, samples):
        """Takes a sample and shows it."""
        sample = self.sampler.sample(time.monotonic() - self.began)
        samples.append(sample)
        if samples is self.samples and int(sample.at) % 60 < EACH:
            print(
                f"{sample.at:6.0f} s  rss {sample.rss} KiB  pss {sample.pss} KiB  fds {sample.fds}  pipes {sample.pipes}  "
                f"sockets {sample.sockets}  consul {sample.consul}  threads {sample.threads}  children {sample.children}  "
                f"zombies {sample.zombies}  cpu {sample.cpu:.1f} s",
                flush=True,
            )

    async def shut_down(self):
        """Ends the program; nothing of it may be left."""
        expect(await self.consul.services() != [], "no service is registered before the shutdown")
        began = time.monotonic()
        self.program.terminate()
        try:
            status = await asyncio.wait_for(self.program.wait(), LONGEST_SHUTDOWN)
        except TimeoutError:
            raise Failed(f"the shutdown takes longer than {LONGEST_SHUTDOWN} s") from None
        print(f"\nshutdown: {time.monotonic() - began:.1f} s, exit status {status}")
        expect(status == 0, f"the exit status is {status}")
        expect(not marked(self.mark), f"processes are left: {marked(self.mark)}")
        expect(await self.consul.services() == [], f"services are left: {await self.consul.services()}")
        expect(not (self.directory / "control.sock").exists(), "the control socket is left")

    def conclude(self):
        """Prints the tables and what is wrong; returns the exit status."""
        # As long as the samples after the warm-up allow, at most five minutes each.
        warm = [sample for sample in self.samples if sample.at > self.warm_up + EACH]
        window = max(1, min(len(warm) // 3, 300 // EACH))
        if len(warm) > 2:
            self.table("under load", compare(UNDER_LOAD, warm[:window], warm[-window:]))
            early = [sample for sample in self.samples if sample.at > 60][:window]
            self.table("since minute 1", compare(SINCE_THE_FIRST_MINUTE, early, warm[-window:]))
            print(f"\ngrowth per hour: rss {slope(warm, 'rss'):.0f} KiB, pss {slope(warm, 'pss'):.0f} KiB; "
                  f"CPU {100 * warm[-1].cpu / warm[-1].at:.1f} % of a core")
        if len(self.rests) == 2:
            self.table("at rest", compare(AT_REST, *self.rests))
        if self.clients:
            print("\n" + ", ".join(f"{count} {name}" for name, count in self.clients.counts.items())
                  + f", {self.lines} lines of log")
        for complaint in self.complaints:
            print(f"not flat: {complaint}", file=sys.stderr)
        if self.complaints:
            with tempfile.NamedTemporaryFile(prefix="soak.", suffix=".log", delete=False) as file:
                file.write(self.log)
            print(f"the end of the log is in {file.name}", file=sys.stderr)
        print("\nflat" if not self.complaints else "\nNOT flat")
        return 1 if self.complaints else 0

    def table(self, title, verdicts):
        """Prints what was compared, and notes what does not hold."""
        print(f"\n{title:<22} {'first':>9} {'last':>9} {'limit':>9}")
        for name, first, last, limit, holds in verdicts:
            print(f"{name:<22} {first:>9.0f} {last:>9.0f} {limit:>9.0f}  {'' if holds else 'too much'}")
            if not holds:
                self.complaints.append(f"{title}: {name} was {first:.0f} and is {last:.0f}")


if __name__ == "__main__":
    sys.exit(main())
