# SPDX-License-Identifier: BSD-3-Clause
"""One job in a guest of its own: a kernel boots, has an rxe device, runs a script with the programs
of this machine, and is gone. Needs no privilege and no network of the host."""
import collections
import os
import pathlib
import subprocess
import tempfile
import time

INIT = pathlib.Path(__file__).resolve().with_name("guest_job.sh")
ADDRESS = "10.77.0.2"  # of the device rxe0

# `status`: the script's exit status, None if it did not end in time. `output`: what it printed,
# then, if it did not end, what the kernel said.
Outcome = collections.namedtuple("Outcome", "status output")


def run(kernel, script, limit_s=120):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job").write_text(script + "\n", encoding="utf-8")
        with open(folder / "console", "w", encoding="utf-8") as console:
            guest = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM",  # nothing is left behind if this is killed
                 str(kernel), "mem=768M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
                 "ro", "con0=null,fd:1", "con=null", "ssl=null", f"uml_dir={name}", "umid=guest",
                 f"init={INIT}", f"weft_folder={name}"],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": name})
        try:
            wait_for(folder / "result", guest, limit_s)
        finally:
            stop(guest)
        return outcome(folder)


def wait_for(result, guest, limit_s):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and guest.poll() is None:
        if result.exists() and result.stat().st_size:
            return
        time.sleep(0.05)


def stop(guest):
    guest.terminate()
    try:
        guest.wait(10)
    except subprocess.TimeoutExpired:
        guest.kill()
        guest.wait()


def outcome(folder):
    def text(name):
        path = folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if text("result"):
        return Outcome(int(text("result")), text("output"))
    return Outcome(None, text("output") + "\nthe guest's console:\n" + text("console"))
