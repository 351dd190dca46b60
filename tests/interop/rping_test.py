#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weft's connection manager and the kernel's: programs of librdmacm in the guest, weft here.

Connections in both directions (rping -s and rping -c), over IPv4 and IPv6, with and without loss;
refusal, a peer that dies and comes back. One guest on a wire to this machine. Skipped, aloud,
where the guest's kernel is not built (./dev interop does).
"""
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import exchanges
import guest
import machine
import rxe_test
import suite

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
PORT = 7174
ROUNDS, SIZE = 200, 3000


class Rping(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = guest.Guest(machine.UML, BIN / "verbs_puppet")
        cls.addClassCleanup(cls.guest.close)
        cls.rxe = exchanges.Puppet("rxe", guest.GUEST, guest.GUEST_PORT)

    def shell(self, *commands):
        return self.rxe.shell(command="; ".join(commands).replace("do;", "do"))

    def start(self, *words):
        return self.run_program("weft_rping", *words)

    def run_program(self, name, *words):
        return subprocess.Popen([str(BIN / name), *map(str, words)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def in_guest(self, name, command):
        self.shell(f"{command} > /run/{name} 2>&1 &")

    def said(self, name):
        return self.shell(f"cat /run/{name} 2>/dev/null")

    def finish(self, process):
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + self.guest.said()[-2000:])
        return out

    def serve_in_guest(self, port, command):
        number = "" if command.startswith("udaddy") else f"-p {port}"  # it has only one
        self.in_guest("server", f"timeout 60 {command} {number}")
        result = self.shell("for i in $(seq 100); do",
                          f"rdma resource show cm_id | grep LISTEN | grep -q ':{port} ' && break",
                          "sleep 0.1", "done", "rdma resource show cm_id")
        self.assertIn(f":{port} ", result, self.said("server"))

    def client_of_weft(self, device, address, guest_address):
        self.serve_in_guest(PORT, f"rping -s -a {guest_address} -V -C {ROUNDS} -S {SIZE}")
        self.assertIn(f"verified {ROUNDS}",
                      self.finish(self.start(device, "client", f"{address}:{PORT}", ROUNDS, SIZE)),
                      self.said("server"))

    def server_of_weft(self, device, address, rounds=ROUNDS, size=SIZE):
        server = self.start(device, "server", PORT, rounds)
        self.assertEqual(server.stdout.readline(), "listening\n")
        result = self.shell(f"timeout 120 rping -c -a {address} -p {PORT} -V -C {rounds} -S {size}",
                          "echo status $?")
        self.assertIn("status 0", result)
        self.assertIn(f"served {rounds}", self.finish(server))

    def impair(self, netem):
        begin, end = guest.impairment(netem)
        self.assertEqual(self.shell(*begin).strip(), "")
        self.addCleanup(self.shell, *end)

    def test_under_loss(self):
        """Connections are made one after the other, each loses and repeats something else."""
        self.impair("loss 10% duplicate 10%")
        for i in range(3):
            port = PORT + 1 + i
            self.serve_in_guest(port, f"rping -s -a {guest.GUEST} -C 5 -S 64")
            out = self.finish(self.start(f"roce+udp:{guest.HOST}", "client",
                                         f"{guest.GUEST}:{port}", 5, 64))
            self.assertIn("verified 5", out)
            self.server_of_weft(f"roce+udp:{guest.HOST}", guest.HOST, 5, 64)

    def test_no_listener(self):
        client = self.start(f"roce+udp:{guest.HOST}", "client", f"{guest.GUEST}:999", 1, 64)
        self.assertIn("no listener on that port", client.communicate(timeout=20)[0])
        server = self.start(f"roce+udp:{guest.HOST}", "server", PORT, 1)
        self.assertEqual(server.stdout.readline(), "listening\n")
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        out = self.shell(f"timeout 20 rping -c -a {guest.HOST} -p 998 -C 1 2>&1", "echo status $?")
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", out)  # invalid service id

    def test_ipv6(self):
        device = f"roce+udp:[{guest.HOST6}]"
        self.client_of_weft(device, f"[{guest.GUEST6}]", guest.GUEST6)
        self.server_of_weft(device, guest.HOST6)

    def test_ucmatose(self):
        device = f"roce+udp:{guest.HOST}"
        self.serve_in_guest(7471, f"ucmatose -b {guest.GUEST}")
        self.assertIn("done", self.finish(
            self.run_program("weft_cmatose", device, "client", f"{guest.GUEST}:7471")))
        server = self.run_program("weft_cmatose", device, "server", 7471)
        self.assertEqual(server.stdout.readline(), "listening\n")
        result = self.shell(f"timeout 30 ucmatose -s {guest.HOST} 2>&1", "echo status $?")
        self.assertIn("status 0", result)
        self.assertIn("done", self.finish(server))

    def test_a_hundred_connections_at_once(self):
        """cmtime and weft_cmtime, in both roles."""
        words = ("-d", f"roce+udp:{guest.HOST}", "-c", 100, "-p")
        self.serve_in_guest(7500, "cmtime")
        result = self.finish(self.run_program("weft_cmtime", *words, 7500, guest.GUEST))
        self.assertRegex(result, r"disconnect +[\d.]+")
        self.shell("pkill cmtime")
        server = self.run_program("weft_cmtime", *words, 7501)
        self.assertIn("listening", server.stdout.readline())
        result = self.shell(f"timeout 30 cmtime -s {guest.HOST} -p 7501 -c 100 2>&1",
                          "echo status $?")
        self.assertIn("status 0", result)
        self.finish(server)

    def test_weft_that_begins_anew(self):
        """Killed in the middle, and another takes its place: what the kernel still has of the
        first does not stand in its way."""
        self.serve_in_guest(PORT + 20, f"rping -s -P -a {guest.GUEST} -S {SIZE}")
        words = ("client", f"{guest.GUEST}:{PORT + 20}")
        for _ in range(3):
            first = self.start(f"roce+udp:{guest.HOST}", *words, 100000, SIZE)
            time.sleep(0.5)
            first.kill()
            first.communicate()
            self.assertIn("verified 10", self.finish(
                self.start(f"roce+udp:{guest.HOST}", *words, 10, SIZE)))

    def test_udaddy(self):
        """SIDR, and datagrams both ways."""
        device = f"roce+udp:{guest.HOST}"
        self.serve_in_guest(7174, f"udaddy -b {guest.GUEST}")
        self.assertIn("done", self.finish(
            self.run_program("weft_udaddy", device, "client", f"{guest.GUEST}:7174")),
            self.said("server"))
        server = self.run_program("weft_udaddy", device, "server", 7174)
        self.assertEqual(server.stdout.readline(), "listening\n")
        result = self.shell(f"timeout 30 udaddy -s {guest.HOST} 2>&1", "echo status $?")
        self.assertIn("status 0", result)
        self.assertIn("done", self.finish(server))

    def test_udaddy_without_service(self):
        server = self.start(f"roce+udp:{guest.HOST}", "server", PORT, 1)
        self.assertEqual(server.stdout.readline(), "listening\n")
        result = self.shell(f"timeout 30 udaddy -s {guest.HOST} 2>&1", "echo status $?")
        self.assertIn("event: RDMA_CM_EVENT_UNREACHABLE, error: 1", result)  # SIDR: not served
        server.kill()
        server.communicate()
        result = self.run_program("weft_udaddy", f"roce+udp:{guest.HOST}", "client",
                                f"{guest.GUEST}:996").communicate(timeout=30)[0]
        self.assertIn("no listener on that port", result)

    # In the guest weft's programs are on the device, by way of librdmacm.

    def on_the_device(self, *words):
        return f"timeout 60 {BIN}/weft_rping ibverbs:rxe0 " + " ".join(map(str, words))

    def serve_on_the_device(self, port, rounds):
        self.in_guest("weft", self.on_the_device("server", port, rounds))
        self.shell("for i in $(seq 100); do",
                   "grep -q . /run/weft && break", "sleep 0.1", "done")
        self.assertIn("listening", self.said("weft"))

    def served(self, rounds):
        self.shell("for i in $(seq 100); do",
                   "grep -q served /run/weft && break", "sleep 0.1", "done")
        self.assertIn(f"served {rounds}", self.said("weft"))

    def test_the_device_and_rping(self):
        self.serve_in_guest(PORT + 30, f"rping -s -a {guest.GUEST} -V -C 20 -S {SIZE}")
        words = self.on_the_device("client", f"{guest.GUEST}:{PORT + 30}", 20, SIZE)
        self.assertIn("verified 20", self.shell(f"{words} 2>&1"), self.said("server"))
        self.serve_on_the_device(PORT + 31, 20)
        out = self.shell(f"timeout 60 rping -c -a {guest.GUEST} -p {PORT + 31} -V -C 20 -S {SIZE}",
                         "echo status $?")
        self.assertIn("status 0", out)
        self.served(20)

    def test_the_device_and_weft(self):
        """One program on two providers meets itself."""
        host = f"roce+udp:{guest.HOST}"
        server = self.start(host, "server", PORT, ROUNDS)
        self.assertEqual(server.stdout.readline(), "listening\n")
        words = self.on_the_device("client", f"{guest.HOST}:{PORT}", ROUNDS, SIZE)
        self.assertIn(f"verified {ROUNDS}", self.shell(f"{words} 2>&1"))
        self.assertIn(f"served {ROUNDS}", self.finish(server))
        self.serve_on_the_device(PORT + 32, ROUNDS)
        client = self.start(host, "client", f"{guest.GUEST}:{PORT + 32}", ROUNDS, SIZE)
        self.assertIn(f"verified {ROUNDS}", self.finish(client))
        self.served(ROUNDS)

    def test_the_device_refused(self):
        words = self.on_the_device("client", f"{guest.HOST}:997", 1, 64)
        server = self.start(f"roce+udp:{guest.HOST}", "server", PORT, 1)
        self.assertEqual(server.stdout.readline(), "listening\n")
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.assertIn("no listener on that port", self.shell(f"{words} 2>&1"))

    def test_weft_to_rping(self):
        self.client_of_weft(f"roce+udp:{guest.HOST}", guest.GUEST, guest.GUEST)

    def test_rping_to_weft(self):
        self.server_of_weft(f"roce+udp:{guest.HOST}", guest.HOST)


if __name__ == "__main__":
    missing = rxe_test.why_not(machine.UML)
    if not missing and not shutil.which("rping"):
        missing = "no rping: install rdmacm-utils (./dev interop does)"
    if missing:
        suite.skip(missing)
    else:
        guest.enter_namespaces()
        suite.run()
