#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The mistakes of users: each ends by itself with its cause, on every side that can see it, and
leaves nothing behind. In a network namespace whose interface `drops` loses what it is sent, with a
/dev/shm of its own.
"""
import os
import pathlib
import re
import shlex
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
SECONDS = 30  # until something hangs; on an idle machine each ends within 3
PORT = 18515
SETUP = """ip link set lo up && ip link add drops type veth peer name end && ip link set end up &&
ip addr add 10.9.9.1/24 dev drops && ip link set drops up &&
ip neigh add 10.9.9.9 lladdr 02:00:00:00:00:09 dev drops &&
mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@" """

# A program of this folder, for mistakes that the measuring programs do not make.
SIDE = "user_errors_side.py"

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
    "a firewall drops TCP": ("weft_write_bw --insecure --connect_wait 0.1 10.9.9.9", 1,
                             ["10.9.9.9:18515", "firewall"]),
    "no such process": ("weft_stat 4194304", 1, ["no process 4194304"]),
    "a process without weft": ("weft_stat 1", 1, ["process 1 ", "no weft device open"]),
    "no such rank": ("weft_coll -r 2 --root 5 broadcast -e 8", 1, ["root"]),
    "a path MTU beyond the interface's": ("weft_write_bw -d roce+udp:drops,udp.mtu=4096", 1,
                                          ["udp.mtu=4096", "at most"]),
    "no such secret": ("weft_write_bw --secret SECRETS/none 127.0.0.1", 1,
                       ["SECRETS/none", "No such file"]),
    "more inline than a device has": ("weft_write_bw -I 65536 127.0.0.1", 1,
                                      ["-I 65536", "at most 1024 bytes"]),
    "a secret that others may read": ("weft_write_bw --secret SECRETS/open 127.0.0.1", 1,
                                      ["SECRETS/open", "is not used", "chmod 600"]),
}

# Two sides: server, client, what the server says, what the client says.
DIFFER = "different options"
TWO = {
    "another provider": ("weft_write_bw -d roce+udp:lo", "weft_write_bw -d srd+udp:lo",
                         ["refused 127.0.0.1", "type rc", "type srd"], ["type rc", "type srd"]),
    "another port": ("weft_write_bw -d roce+udp:lo", "weft_write_bw -d roce+shm:a",
                     ["refused 127.0.0.1", "roce+udp", "roce+shm"], ["roce+udp", "roce+shm"]),
    "another secret": ("weft_write_bw --secret SECRETS/one", "weft_write_bw --secret SECRETS/two",
                       ["refused 127.0.0.1", "fingerprint", "same secret"],
                       ["fingerprint", "same secret"]),
    "a secret on one side": ("weft_write_bw", "weft_write_bw --secret SECRETS/two",
                             ["refused 127.0.0.1", "key of its user", "both sides WEFT_SECRET"],
                             ["key of its user", "both sides WEFT_SECRET"]),
    "insecure on one side": ("weft_write_bw", "weft_write_bw --insecure",
                             ["refused 127.0.0.1", "insecure", "on both sides or on none"],
                             ["insecure", "on both sides or on none"]),
    "another job": ("weft_write_bw -d roce+shm:a", "weft_write_bw -d roce+shm:b",
                    [DIFFER, "-d", "roce+shm:a", "roce+shm:b"],
                    [DIFFER, "-d", "roce+shm:a", "roce+shm:b"]),
    "another program": ("weft_write_bw -n 9", "weft_read_bw -n 9", [DIFFER, "weft_read_bw"],
                        [DIFFER]),
    "a key of a region that is gone": (
        f"{SIDE} dead_key", f"{SIDE} dead_key",
        ["127.0.0.", "qp_access_error", "rkey is of no region of this protection domain any more"],
        ["remote_access_error", "rkey is of no region there any more"]),
    "a right is missing": (
        f"{SIDE} read_only", f"{SIDE} read_only",
        ["127.0.0.", "qp_access_error", "lacks the right (Access::remote_write"],
        ["remote_access_error", "lacks the right (Access::remote_write"]),
    "a receive is missing": (
        f"{SIDE} no_receive", f"{SIDE} no_receive", ["posts no receive"],
        ["rnr_retry_exceeded", "the peer had no receive posted", "post receives before"]),
    "a receive is too small": (
        f"{SIDE} small_receive", f"{SIDE} small_receive",
        ["local_length_error", "post larger receives"],
        ["remote_invalid_request", "its receive is too small"]),
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


# Of connection set-up: "WEFT", version, mode, purpose, fingerprint (lib/crypto/terms.hpp).
TERMS = struct.Struct(">4sHBB8s")
LATER = TERMS.pack(b"WEFT", 999, 0, 1, bytes(8))


def command(line, secrets):
    name, *words = line.replace("SECRETS", secrets).split()
    if name == SIDE:
        return [sys.executable, pathlib.Path(__file__).with_name(name), *words]
    return [BUILD / "bin" / name, *words]


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as table, \
            open("/proc/net/tcp6", encoding="ascii") as table6:
        return any(f":{port:04X} " in line and " 0A " in line for line in [*table, *table6])


class UserErrors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        secrets = tempfile.TemporaryDirectory()
        self.addCleanup(secrets.cleanup)
        self.secrets = secrets.name
        for name, mode in (("one", 0o600), ("two", 0o600), ("open", 0o644)):
            path = pathlib.Path(self.secrets, name)
            path.write_text(f"{name}: a secret of thirty-two bytes and more", encoding="ascii")
            path.chmod(mode)
        self.running = []

    def tearDown(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
                self.fail(f"{process.args} still runs")
        # What stays of a user: the folder of flight records of requests that failed, and a key.
        left = [name for name in os.listdir("/dev/shm")
                if not re.fullmatch(r"weft-\d+(\.key)?", name)]
        self.assertEqual(left, [])
        self.assertEqual(os.listdir(self.folder.name), [])

    def start(self, line, **how):
        environment = dict(os.environ, TMPDIR=self.folder.name, **how.pop("env", {}))
        environment.setdefault("PYTHONPATH", str(BUILD / "lib/python"))
        words = command(line, self.secrets)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment,
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
            self.assertIn(piece.replace("SECRETS", self.secrets), errors)
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

    def test_a_later_version(self):
        server = self.serve("weft_write_bw --insecure")
        with socket.create_connection(("127.0.0.1", PORT)) as peer:
            peer.sendall(LATER)
            self.end(server, 1, ["refused 127.0.0.1 port", "version 999", "this side 3"])
            magic, version, *_ = TERMS.unpack(peer.recv(TERMS.size, socket.MSG_WAITALL))
            self.assertEqual((magic, version), (b"WEFT", 3))  # so the client can say so, too
        self.against(LATER, ["version 999", "this side 3"])

    def against(self, answer, said, *words):
        """A client whose server sends `answer`, and no more."""
        with socket.create_server(("127.0.0.1", PORT)) as server:
            client = self.start(" ".join(["weft_write_bw --insecure", *words, "127.0.0.1"]))
            with server.accept()[0] as peer:
                peer.sendall(answer)
                self.end(client, 1, said)

    def test_another_protocol(self):
        self.against(b"HTTP/1.1 400 Bad Request\r\n\r\n",
                     ["no weft connection", '"HTTP/1.1 400 Bad', "check host and port"])
        self.against(b"220 ", ["no weft connection", '"220 "'])  # fewer bytes than terms have
        server = self.serve("weft_write_bw")
        with socket.create_connection(("127.0.0.1", PORT)) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.end(server, 1, ["refused 127.0.0.1 port", "no weft connection", '"GET / HTTP/1.1'])

    def test_a_server_that_says_nothing(self):
        self.against(b"", ["127.0.0.1:18515", "has said nothing for 2100 ms", "busy"],
                     "--connect_wait 0.1")

    def test_a_probe_of_the_port_ends_no_server(self):
        server = self.serve("weft_write_bw -n 9")
        socket.create_connection(("127.0.0.1", PORT)).close()
        self.end(self.start("weft_write_bw -n 9 127.0.0.1"), 0, [])
        self.end(server, 0, [])

    def test_the_udp_port_is_taken(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.9", 4791))
            self.end(self.start("weft_write_bw -d roce+udp:127.0.0.9"), 1,
                     ["127.0.0.9", "4791", f"process {os.getpid()} "])

    def test_little_memory(self):
        import resource
        little = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))  # noqa: E731
        self.end(self.start("weft_write_bw -s 1073741824", preexec_fn=little), 1, ["memory"])

    def test_a_broken_module(self):
        with tempfile.TemporaryDirectory() as modules:
            pathlib.Path(modules, "port_dpdk.so").write_text("no module", encoding="ascii")
            self.end(self.start("weft_write_bw -d roce+dpdk:net_memif",
                                env={"WEFT_MODULE_PATH": modules}), 1, [modules, "port_dpdk"])

    def test_no_huge_pages(self):
        if not (BUILD / "lib/weft/modules/port_dpdk.so").exists():
            self.skipTest("built without libdpdk-dev")
        if any(int(size.read_text("ascii")) for size in
               pathlib.Path("/sys/kernel/mm/hugepages").glob("*/free_hugepages")):
            self.skipTest("this machine has huge pages")
        self.end(self.start("weft_write_bw -d roce+dpdk:net_null,dpdk.huge=1"), 1,
                 ["no free huge pages", "/proc/sys/vm/nr_hugepages"])

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

    def test_full_shared_memory(self):
        if os.getuid() != 0:
            self.skipTest("only root can become another user")
        # A user without a home keeps its key there. Other processes keep theirs: the full one is in
        # a mount namespace of its own.
        full = ("mount -t tmpfs -o size=4k,mode=1777 none /dev/shm && head -c 4096 /dev/zero "
                ">/dev/shm/full && exec setpriv --reuid=65534 --regid=65534 --clear-groups -- ")
        words = command("weft_write_bw 127.0.0.1", self.secrets)
        process = subprocess.Popen(["unshare", "--mount", "sh", "-c",
                                    full + shlex.join(map(str, words))],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        self.end(process, 1, ["/dev/shm/weft-65534.key", "No space left"])

    def test_another_user(self):
        if os.getuid() != 0:
            self.skipTest("only root can become another user")
        server = self.serve("weft_write_bw")
        client = self.start("weft_write_bw 127.0.0.1", user=65534, group=65534, extra_groups=[])
        self.end(client, 1, ["run both as one user"])
        self.end(server, 1, ["refused 127.0.0.1", "run both as one user"])


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
