# SPDX-License-Identifier: BSD-3-Clause
"""One job in a guest of its own: a kernel boots, has an rxe device, runs a script with the programs
of this machine, and ends. Needs no privilege and no network of the host."""
import collections
import pathlib
import tempfile
import time

import guest

INIT = pathlib.Path(__file__).resolve().with_name("guest_job.sh")
ADDRESS = "10.77.0.2"  # of the device rxe0

# `status`: the script's exit status, None if it did not end in time. `output`: what it printed,
# then, if it did not end, what the kernel said.
Outcome = collections.namedtuple("Outcome", "status output")


def run(machine, script, limit_s=120):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job").write_text(script + "\n", encoding="utf-8")
        process = guest.start(machine, name, INIT, {})
        try:
            wait_for(folder / "result", process, limit_s * machine.slowness)
        finally:
            guest.stop(process)
        return outcome(folder)


def wait_for(result, process, limit_s):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and process.poll() is None:
        if result.exists() and result.stat().st_size:
            return
        time.sleep(0.05)


def outcome(folder):
    def text(name):
        path = folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if text("result"):
        return Outcome(int(text("result")), text("output"))
    return Outcome(None, text("output") + "\nthe guest's console:\n" + text("console"))
