"""One class for each peer: how it is started for a set of jobs, and what it cannot do.

To add another: a class with `name`, `program` and `many`, listed in ADAPTERS.
"""

import json
import os
import shutil
import signal
from dataclasses import dataclass

from running import Cannot


@dataclass
class Job:
    """One helper with its single argument."""
    program: str
    argument: str
    restart: bool = False
    # Where its output goes, through the peer's own logger: a file, or a folder for loggers that rotate.
    log: str = ""

    def argv(self):
        return [self.program, self.argument]

    def shebang(self):
        """The cheapest run script there is: no shell."""
        return f"#!{self.program} {self.argument}\n"


class Adapter:
    name = ""
    program = ""
    # Fewer rounds of the largest work for the slow ones.
    rounds_at_1000 = None

    def __init__(self, peers):
        self.peers = peers

    def find(self, program=None):
        program = program or self.program
        for root in ("root/usr/bin", "root/usr/sbin", "root/bin", "root/sbin", "cargo/bin"):
            path = os.path.join(self.peers, root, program)
            if os.path.exists(path):
                return path
        return shutil.which(program)

    def missing(self):
        """Why it cannot take part at all."""
        return None if self.find() else f"{self.program} is neither unpacked nor on the PATH"

    def one(self, argv):
        """The command line that runs one command and ends with it."""
        raise Cannot("does not end with its job")

    def many(self, run, jobs):
        """Writes a configuration for these jobs into the run's folder; the command line."""
        raise Cannot("runs one process")

    def stop_signal(self):
        return signal.SIGTERM

    def binaries(self):
        """What must be in the image."""
        return [self.find()]

    def libraries(self, run):
        run.environment["LD_LIBRARY_PATH"] = os.path.join(self.peers, "root/usr/lib/x86_64-linux-gnu")


class Us(Adapter):
    name = "containerpilot"
    program = "containerpilot"

    def __init__(self, peers, binary):
        super().__init__(peers)
        self.binary = binary

    def find(self, program=None):
        return self.binary

    def one(self, argv):
        return [self.binary, "--", *argv]

    def many(self, run, jobs, **settings):
        return self.configured(run, [self.entry(index, job) for index, job in enumerate(jobs)], **settings)

    def configured(self, run, jobs, **settings):
        text = json.dumps({"control": {"socket": run.path("control")}, **settings, "jobs": jobs})
        return [self.binary, "-config", run.write(text, "app.json5")]

    @staticmethod
    def entry(index, job):
        entry = {"name": f"job-{index}", "exec": job.argv()}
        if job.restart:
            entry |= {"restarts": "unlimited", "backoff": {"max": "0s"}}
        return entry


class UsFull(Us):
    """With telemetry and the Consul client on: what they cost in memory."""
    name = "containerpilot, telemetry + Consul"

    def many(self, run, jobs, **settings):
        # Not a port that the kernel gives to clients: one that has just left would hold it.
        telemetry = {"port": 19_390, "interfaces": ["lo"]}
        return super().many(run, jobs, consul="127.0.0.1:1", telemetry=telemetry, **settings)


class UsForgetful(Us):
    """Without the last output of each job in memory: what keeping it costs."""
    name = "containerpilot, keeps nothing"

    def configured(self, run, jobs, **settings):
        settings["logging"] = {**settings.get("logging", {}), "keep": "0"}
        return super().configured(run, jobs, **settings)


class Bare(Adapter):
    """No supervisor: posix_spawn in a loop."""
    name = "nothing"

    def missing(self):
        return None

    def helper(self, name):
        return os.path.join(self.peers, "bin", name)

    def one(self, argv):
        return list(argv)

    def many(self, run, jobs):
        job = jobs[0]
        if job.restart:
            if len(jobs) > 1:
                raise Cannot("waits for one process at a time")
            return [self.helper("bare"), "again", *job.argv()]
        return [self.helper("bare"), "many", str(len(jobs)), *job.argv()]

    def binaries(self):
        return []


class Piped(Bare):
    """No supervisor, but all that one asks of the kernel for each job: a group, pipes, the variables that tell of others."""
    name = "nothing, with pipes"

    def one(self, argv):
        raise Cannot("for many")

    def many(self, run, jobs):
        job = jobs[0]
        if job.restart:
            raise Cannot("restarts nothing")
        return [self.helper("bare"), "piped", str(len(jobs)), *job.argv()]


class OneProcess(Adapter):
    """An init for one command."""
    flags = []

    def one(self, argv):
        return [self.find(), *self.flags, "--", *argv]

    def many(self, run, jobs):
        if len(jobs) > 1:
            raise Cannot("runs one process")
        if jobs[0].restart:
            raise Cannot("restarts nothing")
        return self.one(jobs[0].argv())


class Tini(OneProcess):
    name = program = "tini"
    flags = ["-s"]


class DumbInit(OneProcess):
    name = program = "dumb-init"


class Catatonit(OneProcess):
    name = program = "catatonit"


class S6(Adapter):
    name, program = "s6", "s6-svscan-here"

    def many(self, run, jobs):
        self.libraries(run)
        run.environment["PATH"] = os.path.dirname(self.find()) + ":" + os.environ["PATH"]
        for index, job in enumerate(jobs):
            folder = ["scan", f"job-{index}"]
            run.write(job.shebang(), *folder, "run", mode=0o755)
            if not job.restart:
                # Else it would be started again; no peer restarts in works that do not ask for it.
                run.write("#!/bin/sh\nexit 125\n", *folder, "finish", mode=0o755)
            if job.log:
                run.write(f"#!/bin/sh\nexec s6-log -b t s268435455 n20 {job.log}\n", *folder, "log", "run", mode=0o755)
        os.symlink(self.find("s6-supervise"), run.path("scan", ".s6-supervise"))
        # Two processes of it for a job with a logger; -t0: look at the folder once.
        return [self.find(), f"-c{max(500, 2 * len(jobs) + 10)}", "-t0", run.path("scan")]

    def binaries(self):
        libraries = os.path.join(self.peers, "root/usr/lib/x86_64-linux-gnu")
        shared = [os.path.join(libraries, name) for name in sorted(os.listdir(libraries))
                  if name.startswith(("libs6", "libskarnet")) and not os.path.islink(os.path.join(libraries, name))]
        return [self.find("s6-svscan"), self.find("s6-supervise"), self.find("s6-log"), *shared]


class Runit(Adapter):
    name, program = "runit", "runsvdir"

    def many(self, run, jobs):
        run.environment["PATH"] = os.path.dirname(self.find()) + ":" + os.environ["PATH"]
        for index, job in enumerate(jobs):
            folder = ["scan", f"job-{index}"]
            run.write(job.shebang(), *folder, "run", mode=0o755)
            if job.log:
                run.write(f"#!/bin/sh\nmkdir -p {job.log}; echo s0 > {job.log}/config; exec svlogd -ttt {job.log}\n",
                          *folder, "log", "run", mode=0o755)
        # It waits a second after each change of the folder, so let the change be long ago.
        os.utime(run.path("scan"), (1, 1))
        return [self.find(), run.path("scan")]

    def stop_signal(self):
        return signal.SIGHUP  # SIGTERM ends runsvdir alone and leaves all else running

    def binaries(self):
        return [self.find("runsvdir"), self.find("runsv"), self.find("svlogd")]


class Supervisor(Adapter):
    name, program = "supervisord", "supervisord"
    rounds_at_1000 = 2

    def many(self, run, jobs):
        run.environment["PYTHONPATH"] = os.path.join(self.peers, "root/usr/lib/python3/dist-packages")
        text = (f"[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\nminfds=16384\n"
                f"pidfile={run.path('pid')}\nchildlogdir={run.dir}\n")
        for index, job in enumerate(jobs):
            text += (f"[program:job-{index}]\ncommand={job.program} {job.argument}\nstartsecs=0\n"
                     f"autorestart={'true' if job.restart else 'false'}\nstdout_logfile={job.log or 'NONE'}\n"
                     "stdout_logfile_maxbytes=0\nredirect_stderr=true\n")
        return ["/usr/bin/python3", self.find(), "-c", run.write(text, "supervisord.conf")]

    def binaries(self):
        folder = os.path.join(self.peers, "root/usr/lib/python3/dist-packages/supervisor")
        return [os.path.join(base, file) for base, _, files in os.walk(folder) for file in files] + ["/usr/bin/python3.11"]


class Horust(Adapter):
    name = program = "horust"
    rounds_at_1000 = 2

    def one(self, argv):
        # Its control socket would else be made in /var/run.
        sockets = os.path.join(self.peers, "uds")
        os.makedirs(sockets, exist_ok=True)
        return [self.find(), "--uds-folder-path", sockets, "--", *argv]

    def many(self, run, jobs):
        for index, job in enumerate(jobs):
            text = f'command = "{job.program} {job.argument}"\n'
            if job.log:
                text += f'stdout = "{job.log}"\n'
            text += f'[restart]\nstrategy = "{"always" if job.restart else "never"}"\nbackoff = "0s"\nattempts = 0\n'
            run.write(text, "services", f"job-{index}.toml")
        os.makedirs(run.path("uds"), exist_ok=True)
        return [self.find(), "--uds-folder-path", run.path("uds"), "--services-path", run.path("services")]


class Monit(Adapter):
    """A poller, not a parent: its jobs must turn themselves into daemons, so only its checks are comparable."""
    name = program = "monit"

    def many(self, run, jobs):
        raise Cannot("looks after daemons, is not their parent")

    def polling(self, run, checks):
        """Checks each second: lines of its own language."""
        text = f"set daemon 1\nset pidfile {run.path('pid')}\nset statefile {run.path('state')}\nset idfile {run.path('id')}\n"
        return [self.find(), "-I", "-c", run.write(text + checks, "monitrc", mode=0o700)]


PEERS = [Tini, DumbInit, Catatonit, S6, Runit, Horust, Supervisor, Monit]


def adapters(peers, binary):
    """Ours, nothing at all, then the field."""
    return [Us(peers, binary), UsFull(peers, binary), UsForgetful(peers, binary), Bare(peers), Piped(peers), *(kind(peers) for kind in PEERS)]
