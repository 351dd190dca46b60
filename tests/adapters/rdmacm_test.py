#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's programs of librdmacm, unmodified, under weft-run: between two processes over UDP and
over shared memory, against weft's own programs, and perftest -R; and the names and calls of our
librdmacm.so.1."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import drop_in

HERE = pathlib.Path(__file__).resolve().parent
SERVER, CLIENT = "roce+udp:127.0.0.21", "roce+udp:127.0.0.22"
# rstream only says that rpoll() found an error.
REFUSED = re.compile(r"REJECTED|UNREACHABLE|[Rr]efused|rpoll: ")
LIMIT_S = 20


class Failed(AssertionError):
    pass


def started_beside(server, attempt, limit):
    """Runs attempt() until it succeeds: while the server does not listen yet, clients are
    refused."""
    until = time.monotonic() + limit
    while True:
        code, output = attempt()
        if code == 0:
            return output
        if not REFUSED.search(output) or server.finished() or time.monotonic() > until:
            raise Failed(f"exit code {code}\n{output}\nserver: {server.described()}")
        time.sleep(0.1)


def talk(server, client, devices, serves_on=False):
    """Output of a server and its client, which must both succeed. `serves_on`: the server does
    not end by itself."""
    process = drop_in.Process(server, devices[0], (), LIMIT_S)
    try:
        output = started_beside(
            process, lambda: drop_in.run(*client, device=devices[1], limit=LIMIT_S), LIMIT_S)
        if not serves_on:
            code = process.wait()
            assert code == 0, f"exit code {code} of {process.described()}\nclient: {output}"
        return process.output(), output
    finally:
        process.close()


class Programs:
    """What runs over each device; the server is at `address`."""
    devices = address = None

    def check(self, server, client, *patterns, **more):
        with self.subTest(client=client):
            server_says, client_says = talk(server.split(), client.format(self.address).split(),
                                            self.devices, **more)
            for pattern in patterns:
                self.assertRegex(client_says, pattern)
            for says in (server_says, client_says):
                self.assertNotRegex(says, "data verification failed|mismatch|data mis-compare")

    def test_rping(self):
        self.check("rping -s -C 20 -S 4000 -V", "rping -c -a {} -C 20 -S 4000 -V")
        self.check("rping -s -a {} -C 3 -v".format(self.address), "rping -c -a {} -C 3 -v",
                   "rdma-ping-2: CDEFGHIJ")

    def test_ucmatose(self):
        self.check("ucmatose -c 3 -C 20 -S 2000", "ucmatose -s {} -c 3 -C 20 -S 2000",
                   "return status 0")
        self.check("ucmatose -m", "ucmatose -s {} -m -t 32 -a 15", "migrating", "return status 0")

    def test_udaddy(self):
        self.check("udaddy -c 2", "udaddy -s {} -c 2", "return status 0")

    def test_cmtime(self):
        self.check("cmtime", "cmtime -s {} -c 50", r"disconnect *: +\d", serves_on=True)

    def test_synchronous_ids(self):
        self.check("rdma_server", "rdma_client -s {}", "end 0")
        self.check("rdma_xserver", "rdma_xclient -s {}", "end 0")
        self.check("rdma_xserver -c x", "rdma_xclient -s {} -c x", "end 0")

    def test_stream_sockets(self):
        for how in ("b", "n", "a"):
            self.check(f"rstream -T {how} -T v -S 20000 -C 10",
                       f"rstream -s {{}} -T {how} -T v -S 20000 -C 10", "custom")
        self.check("riostream -T v -S 20000 -C 10", "riostream -s {} -T v -S 20000 -C 10", "custom")

    def test_options_of_stream_sockets(self):
        """Addresses, sizes of buffers and of inline data, keepalive, names resolved by rdma_cm."""
        more = "-B 65536 -i 16 -I 3 -S 3000 -C 5 -T v"
        self.check(f"rstream -k 5 {more}", f"rstream -s {{}} -f ip -k 5 {more}", "custom")
        self.check(f"rstream {more}", f"rstream -s {{}} -T r {more}", "custom")
        for how in ("b", "n", "a"):
            self.check(f"riostream -b {self.address} -T {how} {more}",
                       f"riostream -s {{}} -f ip -T {how} {more}", "custom")

    def test_datagram_sockets(self):
        for how in ("b", "n", "a"):
            self.check(f"udpong -T {how} -S 1000 -C 50",
                       f"udpong -s {{}} -T {how} -S 1000 -C 50", "1000 ", serves_on=True)
        self.check("udpong -T e -B 65536 -S 500 -C 20",
                   "udpong -s {} -T e -B 65536 -S 500 -C 20", "500 ", serves_on=True)

    def test_a_file_arrives(self):
        with tempfile.TemporaryDirectory(prefix="weft-rdmacm-") as folder:
            source, target = pathlib.Path(folder, "source"), pathlib.Path(folder, "target")
            source.write_bytes(os.urandom(3_000_001))
            self.check("rcopy", f"rcopy {source} {{}}:{target}", serves_on=True)
            self.assertEqual(source.read_bytes(), target.read_bytes())

    def test_perftest(self):
        for program in ("ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_send_lat -c UD"):
            words = f"{program} -R -F -n 100 -s 1024"
            self.check_perftest(words)

    def check_perftest(self, words):
        server = drop_in.Process(words.split(), self.devices[0], (), LIMIT_S)
        try:
            time.sleep(2)  # until it listens: nothing tells that
            code, output = drop_in.run(*words.split(), self.address, device=self.devices[1],
                                       limit=LIMIT_S)
            self.assertEqual(code, 0, output)
            self.assertRegex(output, r"(?m)^ 1024 +\d")
        finally:
            server.close()


class OverUdp(Programs, unittest.TestCase):
    devices, address = (SERVER, CLIENT), "127.0.0.21"

    def test_a_killed_listener_harms_no_other(self):
        """Two listeners in two processes at one address."""
        first, second = (drop_in.Process(f"rping -s -P -p {port}".split(), SERVER, (), LIMIT_S)
                         for port in (7301, 7302))
        try:
            def ping(server, port):
                words = f"rping -c -a 127.0.0.21 -p {port} -C 3 -V".split()
                started_beside(server, lambda: drop_in.run(*words, device=CLIENT, limit=LIMIT_S),
                               LIMIT_S)
            ping(first, 7301)
            ping(second, 7302)
            first.kill()
            ping(second, 7302)
            third = drop_in.Process("rping -s -P -p 7301".split(), SERVER, (), LIMIT_S)
            try:
                ping(third, 7301)
            finally:
                third.close()
            ping(second, 7302)
        finally:
            first.close()
            second.close()

    def test_multicast(self):
        receiver = drop_in.Process("mckey -m 239.7.7.7 -b 127.0.0.21".split(), SERVER, (), LIMIT_S)
        try:
            # The sender does not know whether anyone has joined.
            while not receiver.finished() and time.monotonic() < receiver.until:
                drop_in.succeed(*"mckey -m 239.7.7.7 -b 127.0.0.22 -s".split(), device=CLIENT)
            self.assertEqual(receiver.wait(), 0, receiver.described())
        finally:
            receiver.close()


class OverShm(Programs, unittest.TestCase):
    devices, address = (drop_in.SHM, drop_in.SHM), "127.0.0.1"


class AgainstWeftsPrograms(unittest.TestCase):
    """A program of librdmacm on one side, weft's program of the same protocol on the other."""

    def own(self, *words):
        return [drop_in.BUILD / "bin" / words[0], *words[1:]]

    def client_of_ours(self, server, client):
        process = drop_in.Process(server, SERVER, (), LIMIT_S)
        try:
            def attempt():
                done = subprocess.run(client, capture_output=True, text=True, timeout=LIMIT_S,
                                      env=drop_in.environment())
                # Its message of a rejection differs from that of rdma_cm.
                return done.returncode, done.stdout + done.stderr.replace("no listener", "refused")
            started_beside(process, attempt, LIMIT_S)
            self.assertEqual(process.wait(), 0, process.described())
        finally:
            process.close()

    def server_of_ours(self, server, client):
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True,
                              env=drop_in.environment()) as process:
            try:
                self.assertEqual(process.stdout.readline(), "listening\n")
                drop_in.succeed(*client, device=CLIENT, limit=LIMIT_S)
                self.assertEqual(process.wait(LIMIT_S), 0)
            finally:
                process.kill()

    def test_rping(self):
        self.client_of_ours("rping -s -C 5 -V".split(),
                            self.own("weft_rping", CLIENT, "client", "127.0.0.21:7174", "5", "64"))
        self.server_of_ours(self.own("weft_rping", SERVER, "server", "7174", "5"),
                            "rping -c -a 127.0.0.21 -C 5 -V".split())

    def test_ucmatose(self):
        self.client_of_ours(["ucmatose"],
                            self.own("weft_cmatose", CLIENT, "client", "127.0.0.21:7471"))
        self.server_of_ours(self.own("weft_cmatose", SERVER, "server", "7471"),
                            "ucmatose -s 127.0.0.21".split())


class Library(unittest.TestCase):
    def names(self, path):
        """NAME@@NODE of each symbol that the library defines."""
        listing = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True,
                                 text=True, check=True).stdout
        return set(re.findall(r" T (\w+@@RDMACM_\S+)", listing))

    def test_names_and_nodes_are_those_of_the_system(self):
        own = self.names(drop_in.LIBRARIES / "librdmacm.so.1")
        self.assertEqual(len(own), 68 + 6)
        system = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
        path = re.search(r"librdmacm\.so\.1 .*x86-64.* => (\S+)", system)
        self.assertTrue(path)
        self.assertEqual(self.names(path.group(1)) - own, set())

    def test_calls(self):
        self.run_program("rdmacm_calls.c", LIMIT_S)

    def test_calls_of_rsockets(self):
        self.run_program("rsocket_calls.c", 3 * LIMIT_S)

    def run_program(self, source, limit):
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        with tempfile.TemporaryDirectory(prefix="weft-rdmacm-") as folder:
            program = pathlib.Path(folder, "program")
            subprocess.run([compiler, "-Wall", "-Werror", "-o", program, HERE / source, "-lrdmacm",
                            "-libverbs"], check=True)
            self.assertIn("all done", drop_in.succeed(program, device=SERVER, limit=limit))


if __name__ == "__main__":
    drop_in.main("rping")
