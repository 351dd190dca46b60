#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The mistakes of users: each ends within 3 seconds with its cause, on every side that can see it,
and leaves nothing behind. In a network namespace whose interface `drops` loses what it is sent,
with a /dev/shm of its own.
"""
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
NAME = "tools/user_errors_test"
INSIDE = "WEFT_USER_ERRORS_INSIDE"  # set in the namespace
SECONDS = 3
PORT = 18515
SETUP = """ip link set lo up && ip link add drops type veth peer name end && ip link set end up &&
ip addr add 10.9.9.1/24 dev drops && ip link set drops up &&
ip neigh add 10.9.9.9 lladdr 02:00:00:00:00:09 dev drops &&
mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@" """

# One side: command, exit code, what it says.
ALONE = {
    "no such provider": ("weft_write_bw -d rocket+udp:lo", 1, ['"rocket"', "roce, srd"]),
    "no such port": ("weft_write_bw -d roce+upd:lo", 1, ['"upd"', "udp"]),
    "no such interface": ("weft_write_bw -d roce+udp:eth9", 1, ["udp:eth9", "lo 127.0.0.1"]),
    "no such key": ("weft_write_bw -d roce+udp:lo,colour=red", 1, ["colour", "icrc"]),
    "no number": ("weft_write_bw -d roce+udp:lo,engines=many", 1, ["engines", "many"]),
    "no such service": ("weft_write_bw -c RD", 2, ["-c RD", "RC, UC, UD and XRC"]),
    "path MTU is no power of two": ("weft_write_bw -m 1000 127.0.0.1", 1,
                                    ["path_mtu 1000", "4096"]),
    "no server": ("weft_write_bw --connect_wait 0.1 127.0.0.1", 1,
                  ["no listener at 127.0.0.1:18515", "start the server first"]),
    "no such host": ("weft_write_bw nohost.invalid", 1, ["nohost.invalid"]),
    "a firewall drops TCP": ("weft_write_bw --connect_wait 0.1 10.9.9.9", 1,
                             ["10.9.9.9:18515", "firewall"]),
    "no such process": ("weft_stat 4194304", 1, ["no process 4194304"]),
    "rank twice": ("weft_coll -r 2 --root 5 broadcast -e 8", 1, ["root"]),
}

# Two sides: server, client, what the server says, what the client says.
DIFFER = "different options"
TWO = {
    "another provider": ("weft_write_bw -d roce+udp:lo", "weft_write_bw -d srd+udp:lo",
                         ["refused 127.0.0.1", "type rc", "type srd"], ["type rc", "type srd"]),
    "another port": ("weft_write_bw -d roce+udp:lo", "weft_write_bw -d roce+shm:a",
                     ["refused 127.0.0.1", "roce+udp", "roce+shm"], ["roce+udp", "roce+shm"]),
    "another job": ("weft_write_bw -d roce+shm:a", "weft_write_bw -d roce+shm:b",
                    [DIFFER, "-d", "roce+shm:a", "roce+shm:b"],
                    [DIFFER, "-d", "roce+shm:a", "roce+shm:b"]),
    "another program": ("weft_write_bw -n 9", "weft_read_bw -n 9", [DIFFER, "weft_read_bw"],
                        [DIFFER]),
    "another size": ("weft_write_bw -s 8", "weft_write_bw -s 16", [DIFFER, "[8]", "[16]"],
                     [DIFFER, "[8]", "[16]"]),
    "another service": ("weft_write_bw", "weft_write_bw -c UC", [DIFFER, '"RC"', '"UC"'],
                        [DIFFER, '"RC"', '"UC"']),
    "a firewall drops UDP": ("weft_write_bw -d roce+udp:lo,fault.blackhole=both", "weft_write_bw",
                             ["retry_exceeded", "firewall", "4791", "127.0.0."],
                             ["retry_exceeded", "firewall", "4791", "127.0.0."]),
    "a firewall drops UDP of SRD": (
        "weft_write_bw -d srd+udp:lo,fault.blackhole=both,patience_ms=1000",
        "weft_write_bw -d srd+udp:lo,patience_ms=1000",
        ["retry_exceeded", "firewall"], ["retry_exceeded", "firewall"]),
    "the ICRC is off on one side": ("weft_write_bw -d roce+udp:lo,icrc=off", "weft_write_bw",
                                    ["retry_exceeded"], ["retry_exceeded"]),
}


def command(line):
    name, *words = line.split()
    return [BUILD / "bin" / name, *words]


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as table, \
            open("/proc/net/tcp6", encoding="ascii") as table6:
        return any(f":{port:04X} " in line and " 0A " in line for line in [*table, *table6])


class UserErrors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.running = []

    def tearDown(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
                self.fail(f"{process.args} still runs")
        self.assertEqual(os.listdir("/dev/shm"), [])
        self.assertEqual(os.listdir(self.folder.name), [])

    def start(self, line, **how):
        environment = dict(os.environ, TMPDIR=self.folder.name, **how.pop("env", {}))
        process = subprocess.Popen(command(line), stdin=subprocess.DEVNULL, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
        self.running.append(process)
        return process

    def serve(self, line, **how):
        process = self.start(line, **how)
        deadline = time.monotonic() + 20
        while not listens(PORT) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return process

    def end(self, process, code, said):
        """The process ends with `code`, and stderr names everything of `said`."""
        try:
            _, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"{process.args} does not end: {process.communicate()}")
        self.assertEqual(process.returncode, code, errors)
        for piece in said:
            self.assertIn(piece, errors)
        self.assertLessEqual(len(errors.splitlines()), 3, errors)

    def test_one_side(self):
        for what, (line, code, said) in ALONE.items():
            with self.subTest(what=what):
                self.end(self.start(line), code, said)

    def test_two_sides(self):
        for what, (server, client, server_says, client_says) in TWO.items():
            with self.subTest(what=what):
                other = self.serve(server)
                one = self.start(client + " 127.0.0.1")
                self.end(one, 1, client_says)
                self.end(other, 1, server_says)

    def test_a_busy_port(self):
        first = self.serve("weft_write_bw")
        self.end(self.start("weft_write_bw"), 1, ["TCP port 18515", "choose another port"])
        first.send_signal(signal.SIGINT)
        self.end(first, 130, [])

    def test_the_server_dies(self):
        server = self.serve("weft_write_bw -D 60")
        client = self.start("weft_write_bw -D 60 127.0.0.1")
        time.sleep(0.5)
        server.kill()
        server.communicate()
        self.end(client, 1, ["retry_exceeded", "is its process running"])

    def test_another_version(self):
        """A client of a later version: its first message is a header of the connection protocol."""
        server = self.serve("weft_write_bw")
        with socket.create_connection(("127.0.0.1", PORT)) as peer:
            header = (ROOT / "lib/verbs/connect_wire.hpp").read_text()
            magic = int(header.split("kConnectMagic = ")[1].split(";")[0].rstrip("u"), 16)
            peer.sendall(struct.pack(">IHBBI", magic, 999, 1, 0, 48) + bytes(48))
            self.end(server, 1, ["refused 127.0.0.1", "version 999", "this side"])

    def test_another_protocol(self):
        with socket.create_server(("127.0.0.1", PORT)) as http:
            client = self.start("weft_write_bw 127.0.0.1")
            with http.accept()[0] as peer:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 64)
                self.end(client, 1, ["no weft connection"])
        server = self.serve("weft_write_bw")
        with socket.create_connection(("127.0.0.1", PORT)) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n" + b" " * 64)
            self.end(server, 1, ["refused 127.0.0.1", "no weft connection"])

    def test_few_descriptors(self):
        import resource
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))  # noqa: E731
        self.end(self.start("weft_write_bw", preexec_fn=few), 1, ["ulimit -n"])

    def test_no_permission(self):
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        try:
            process = self.start("weft_write_bw -d roce+af_packet:drops", **other)
        except (OSError, subprocess.SubprocessError) as error:  # a user namespace of one user
            self.skipTest(str(error))
        self.end(process, 1, ["CAP_NET_RAW"])


def enter():
    """Runs this script again in namespaces of its own."""
    words = ["unshare", "--net", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]),
             "sh", "-c", SETUP, "sh"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        print(f"SKIPPED: {NAME}: no namespaces for network and mounts")
        sys.exit(0)
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter()
    unittest.main()
