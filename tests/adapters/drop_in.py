# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs under weft-run: one alone, or a server and its client, with a time limit.

A process that is not finished at its limit is killed with all that it started, and its output is in
the error. Nothing outlives a test.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
RUN = BUILD / "bin/weft-run"
LIBRARIES = BUILD / "lib/drop-in"
UDP, SHM = "roce+udp:lo", f"roce+shm:adapters-{os.getpid()}"
LIMIT_S = 60

sys.path.insert(0, str(ROOT / "tests/interop"))
import suite  # noqa: E402


def sanitizer():
    """The sanitizers of this build, or None."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    found = re.search(r"^WEFT_SANITIZE:\w+=(\S+)$", cache, re.M)
    return found and found.group(1)


def why_not():
    """Why no program can run on the drop-in libraries of this build, or None."""
    if not (LIBRARIES / "libibverbs.so.1").exists():
        return "built without libibverbs-dev"
    if sanitizer():
        return f"a program that is not sanitized cannot load libraries with {sanitizer()}"
    return None


def missing(*programs):
    """Which of these programs the machine lacks, as a reason to skip; or None."""
    absent = [program for program in programs if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def main(*needs):
    """Runs the tests of the script, unless the build or one of these programs is missing."""
    reason = why_not() or missing(*needs)
    if reason:
        suite.skip(reason)
    else:
        suite.run()


def environment(**more):
    """The variables of this process without those that choose devices, and these."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("WEFT_VERBS") and name not in ("WEFT_DEVICE", "LD_PRELOAD")}
    return {**kept, **more}


class Process:
    """A process of its own group under weft-run, or, without a launcher, as it is."""

    def __init__(self, words, device=UDP, options=(), limit=LIMIT_S, variables=(), launcher=RUN):
        own = ["-d", device] if device else []
        under = [launcher, *own, *options, "--"] if launcher else []
        self.words = [str(word) for word in [*under, *words]]
        self.until = time.monotonic() + limit
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            env=environment(**dict(variables)), start_new_session=True)

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def finished(self):
        return self.process.poll() is not None

    def wait(self):
        """The exit code; an AssertionError at the limit."""
        try:
            return self.process.wait(max(0.01, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"not finished in time: {self.described()}") from None

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def close(self):
        """Ends the process, if it still runs; its output is gone."""
        self.kill()
        self.log.close()

    def described(self):
        return f"{' '.join(self.words)}\n{self.output()}"


def run(*words, device=UDP, options=(), limit=LIMIT_S, **variables):
    """The exit code and output of one program."""
    process = Process(words, device, options, limit, variables)
    try:
        return process.wait(), process.output()
    finally:
        process.close()


def succeed(*words, **more):
    """The output of a program that must succeed."""
    code, output = run(*words, **more)
    assert code == 0, f"{' '.join(map(str, words))}: exit code {code}\n{output}"
    return output


def free_port():
    """A TCP port that no process has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Whether a process of this network namespace listens at a TCP port, without connecting."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            rows = pathlib.Path(table).read_text().splitlines()[1:]
            if any(row.split()[1].endswith(wanted) and row.split()[3] == "0A" for row in rows):
                return True
    return False


def pair(server, client, ready, device=UDP, limit=LIMIT_S, launcher=RUN, **variables):
    """Output of a server and of a client that both must succeed. `ready(server)` says whether the
    client may start."""
    processes = [Process(server, device, (), limit, variables, launcher)]
    try:
        while not ready(processes[0]) and not processes[0].finished():
            assert time.monotonic() < processes[0].until, f"not ready: {processes[0].described()}"
            time.sleep(0.005)
        processes.append(Process(client, device, (), limit, variables, launcher))
        codes = [process.wait() for process in reversed(processes)]
        assert codes == [0, 0], f"exit codes {codes}\n" + "\n".join(
            process.described() for process in processes)
        return [process.output() for process in processes]
    finally:
        for process in processes:
            process.close()


def at_port(port):
    """For pair(): the server listens at a TCP port."""
    return lambda _: listens(port)
