# SPDX-License-Identifier: BSD-3-Clause
"""A network of its own, and the guest on a wire to it.

Processes, devices and addresses live in namespaces of this test, so that nothing is left behind
whatever happens, and no privilege is needed where users may make namespaces.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
HOST6, GUEST6 = "fd77::1", "fd77::2"
HOST, GUEST, RAW_PEER = "10.77.0.1", "10.77.0.2", "10.77.0.3"
GUEST_PORT = 7002


def unshare():
    """The command that starts another in network and process namespaces of its own."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *as_root]


def can_enter_namespaces():
    return subprocess.run(unshare() + ["true"], capture_output=True, check=False).returncode == 0


def enter_namespaces():
    """Starts the program again inside namespaces of its own; returns when it is inside."""
    if not os.environ.get("WEFT_INTEROP_INSIDE"):
        os.environ["WEFT_INTEROP_INSIDE"] = "1"
        words = unshare() + [sys.executable] + sys.argv
        os.execvp(words[0], words)
    run("ip", "link", "set", "lo", "up")


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Guest:
    """A booted kernel with rxe0 at GUEST, and a tap; this namespace has the other addresses."""

    def __init__(self, kernel, puppet, mtu=1500):
        self.folder = tempfile.TemporaryDirectory()
        run("ip", "tuntap", "add", "dev", "weft0", "mode", "tap")
        run("ip", "link", "set", "weft0", "address", "02:00:00:00:00:01", "mtu", str(mtu), "up")
        for address in (HOST, RAW_PEER):
            run("ip", "addr", "add", f"{address}/24", "dev", "weft0")
        # Where the kernel has no IPv6 the test of it says so.
        subprocess.run(["ip", "addr", "add", f"{HOST6}/64", "dev", "weft0", "nodad"], check=False)
        self.console = open(pathlib.Path(self.folder.name) / "console", "w+", encoding="utf-8",
                            errors="replace")
        self.process = subprocess.Popen(
            [str(kernel), "mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
             "con0=null,fd:1", "con=null", "ssl=null", f"uml_dir={self.folder.name}", "umid=guest",
             f"vec0:transport=tap,ifname=weft0,depth=128,gro=0,mtu={mtu}",
             f"init={FOLDER}/guest_init.sh",
             f"weft_puppet={puppet}", f"weft_port={GUEST_PORT}", f"weft_mtu={mtu}"],
            stdin=subprocess.DEVNULL, stdout=self.console, stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": self.folder.name})

    def said(self):
        self.console.seek(0)
        return self.console.read()

    def close(self):
        run("ip", "link", "del", "weft0")
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.console.close()
        self.folder.cleanup()
