"""One run of a supervisor: its folder, its process, the end of everything that it started."""

import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import machine


class Cannot(Exception):
    """The peer cannot do this work; the message says why."""


class TooSlow(Exception):
    """The fact that we waited for did not come."""


def wait_until(fact, deadline_s, what, pause_s=0.005):
    """The first true value of `fact`."""
    end = time.monotonic() + deadline_s
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > end:
            raise TooSlow(f"{what}: not within {deadline_s} s")
        time.sleep(pause_s)


def scratch_root():
    """A memory file system where programs may be executed, else the usual place."""
    shm = "/dev/shm"
    usable = os.access(shm, os.W_OK) and not os.statvfs(shm).f_flag & os.ST_NOEXEC
    return shm if usable else None


class Run:
    """A folder, and a supervisor that was started in it. To be used with `with`: nothing of it is left behind."""

    def __init__(self, helpers):
        self.helpers = helpers
        self.dir = tempfile.mkdtemp(prefix="cpb-", dir=scratch_root())
        self.stamps = self.path("stamps")
        self.exec_time = self.path("exec")
        self.process = None
        self.alive = None
        self.environment = {}

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, text, *parts, mode=0o644):
        path = self.path(*parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def fifo(self):
        """A fifo that jobs hold open while they live; its reader sees the end when all are gone."""
        path = self.path("alive")
        os.mkfifo(path)
        self.alive = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return path

    def start(self, argv, prefix=()):
        """Starts the supervisor; the time of its exec is noted. `prefix` goes before it all."""
        environment = {**os.environ, **self.environment}
        out = open(self.path("out"), "w")
        self.process = subprocess.Popen(
            [*prefix, self.helpers("stamp"), self.exec_time, *argv], cwd=self.dir, env=environment,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        out.close()
        return self.process

    def started_ns(self):
        return self.times(self.exec_time)[0]

    def times(self, path=None):
        """What was appended to a file of times."""
        try:
            with open(path or self.stamps, "rb") as file:
                data = file.read()
        except OSError:
            return []
        return struct.unpack(f"={len(data) // 8}Q", data[:len(data) // 8 * 8])

    def count(self, path=None):
        try:
            return os.stat(path or self.stamps).st_size // 8
        except OSError:
            return 0

    def await_stamps(self, number, deadline_s):
        """Waits for that many jobs; fails early when the supervisor is gone."""
        def fact():
            if self.count() >= number:
                return True
            if self.process.poll() is not None:
                raise TooSlow(f"it ended with {self.process.returncode}: {self.output_tail()}")
            return False
        wait_until(fact, deadline_s, f"{number} jobs, {self.count()} seen")
        return sorted(self.times())

    def output_tail(self):
        return machine.read(self.path("out"))[-300:]

    def own(self):
        """The processes of the supervisor itself: all that are not our helpers."""
        helpers = self.helpers("")
        everything = [self.process.pid, *machine.descendants(self.process.pid)]
        return [pid for pid in everything if not machine.is_zombie(pid)
                and not machine.program(pid).startswith(helpers)]

    def jobs_gone(self, deadline_s):
        """Waits until no job holds the fifo open; the time of that."""
        poll = select.poll()
        poll.register(self.alive, select.POLLIN)
        while True:
            events = poll.poll(deadline_s * 1000)
            if not events:
                raise TooSlow(f"jobs live {deadline_s} s after the signal")
            if events[0][1] & select.POLLHUP:
                return time.monotonic_ns()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        if self.alive is not None:
            os.close(self.alive)
        shutil.rmtree(self.dir, ignore_errors=True)

    def end(self):
        """Kills what is left, by process id, and reaps it."""
        if self.process is None:
            return
        # Orphans of it are our own children by now.
        while True:
            left = [pid for pid in machine.descendants(os.getpid()) if pid not in spared]
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            while True:
                try:
                    pid, _ = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    time.sleep(0.001)
                    break
        self.process.poll()


# Processes of the harness that outlive a run, and everything below them.
spared = set()
