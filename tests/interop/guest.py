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

import suite

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


def run_tests():
    """The program's tests, in namespaces of their own; a line that says so where there are none."""
    if not can_enter_namespaces():
        suite.skip("a network namespace needs root")
        return
    enter_namespaces()
    suite.run()


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def impairment(netem):
    """Shell commands for the guest: netem on what it sends, and, by way of ifb0, on what it
    receives; then those that undo it."""
    return ([f"tc qdisc add dev wire0 root netem {netem}", "ip link set ifb0 up",
             f"tc qdisc add dev ifb0 root netem {netem}", "tc qdisc add dev wire0 ingress",
             "tc filter add dev wire0 ingress matchall action mirred egress redirect dev ifb0"],
            ["tc qdisc del dev wire0 root", "tc qdisc del dev ifb0 root",
             "tc qdisc del dev wire0 ingress"])


class Guest:
    """A booted kernel with rxe0 at GUEST, and a wire to it: `weft0` in this namespace, with the
    other addresses, `wire0` in the guest. The wire is a tap; `bridged`, a veth before it."""

    def __init__(self, machine, puppet, mtu=1500, bridged=False):
        self.folder = tempfile.TemporaryDirectory()
        self.machine = machine
        tap = make_bridged_wire(mtu) if bridged else make_wire()
        run("ip", "link", "set", "weft0", "address", "02:00:00:00:00:01", "mtu", str(mtu), "up")
        for address in (HOST, RAW_PEER):
            run("ip", "addr", "add", f"{address}/24", "dev", "weft0")
        # Where the kernel has no IPv6 the test of it says so.
        subprocess.run(["ip", "addr", "add", f"{HOST6}/64", "dev", "weft0", "nodad"], check=False)
        self.process = start_puppet(machine, self.folder.name, puppet, [tap], mtu)

    def said(self):
        return console(self.folder.name)

    def close(self):
        stop(self.process)
        for device in ("weft0", "weft-tap", "weft-bridge"):
            subprocess.run(["ip", "link", "del", device], capture_output=True, check=False)
        self.folder.cleanup()


def make_wire():
    """weft0, a tap; the name of the tap."""
    run("ip", "tuntap", "add", "dev", "weft0", "mode", "tap")
    return "weft0"


def make_bridged_wire(mtu):
    """weft0, one end of a veth whose other end shares a bridge with a tap; the name of the tap."""
    run("ip", "link", "add", "weft0", "type", "veth", "peer", "name", "weft1")
    run("ip", "tuntap", "add", "dev", "weft-tap", "mode", "tap")
    run("ip", "link", "add", "weft-bridge", "type", "bridge", "mcast_snooping", "0")
    for device in ("weft1", "weft-tap"):
        run("ip", "link", "set", device, "mtu", str(mtu), "master", "weft-bridge", "up")
    run("ip", "link", "set", "weft-bridge", "up")
    return "weft-tap"


def start_puppet(machine, folder, puppet, taps, mtu, number=2):
    """A guest with rxe0 at 10.77.0.`number` and a puppet."""
    return start(machine, folder, FOLDER / "guest_init.sh",
                 {"weft_puppet": puppet, "weft_port": GUEST_PORT, "weft_mtu": mtu,
                  "weft_number": number}, taps, mtu)


def start(machine, folder, init, variables, taps=(), mtu=1500):
    """The guest's process, which ends with the thread that started it; nothing else is left."""
    with open(pathlib.Path(folder) / "console", "w", encoding="utf-8") as out:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM",
             *machine.command(folder, init, variables, taps, mtu)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder)})


def console(folder):
    return (pathlib.Path(folder) / "console").read_text(encoding="utf-8", errors="replace")


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
