#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weft's connection manager and the kernel's: programs of librdmacm in the guest, weft here.

Connections in both directions (rping -s and rping -c), over IPv4 and IPv6, with and without loss;
refusal, a peer that dies and comes back. Each test boots a guest of its own on a wire to this
machine. Skipped, aloud, where the guest's kernel is not built (./dev interop does).
"""
import os
import pathlib
import subprocess
import time
import unittest

import exchanges
import guest
import kernel
import rxe_test

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
PORT = 7174
ROUNDS, SIZE = 200, 3000


class Rping(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = guest.Guest(kernel.path(), BIN / "verbs_puppet")
        cls.addClassCleanup(cls.guest.close)
        cls.rxe = exchanges.Puppet("rxe", guest.GUEST, guest.GUEST_PORT)

    def shell(self, *commands):
        return self.rxe.shell(command="; ".join(commands))

    def start(self, *words):
        return subprocess.Popen([str(BIN / "weft_rping"), *map(str, words)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def in_guest(self, name, command):
        self.shell(f"{command} > /run/{name} 2>&1 &")

    def said(self, name):
        return self.shell(f"cat /run/{name} 2>/dev/null")

    def finish(self, process):
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + self.guest.said()[-2000:])
        return out

    def wait_for(self, name, words):
        for _ in range(100):
            if words in self.said(name):
                return
            time.sleep(0.1)
        self.fail(f"{name} never said {words}: {self.said(name)}")

    def client_of_weft(self, device, address, guest_address):
        self.in_guest("server", f"timeout 60 rping -s -a {guest_address} -p {PORT} -V -C {ROUNDS} "
                                f"-S {SIZE}")
        time.sleep(0.5)
        self.assertIn(f"verified {ROUNDS}",
                      self.finish(self.start(device, "client", f"{address}:{PORT}", ROUNDS, SIZE)),
                      self.said("server"))

    def server_of_weft(self, device, address):
        server = self.start(device, "server", PORT)
        self.assertEqual(server.stdout.readline(), "listening\n")
        told = self.shell(f"timeout 60 rping -c -a {address} -p {PORT} -V -C {ROUNDS} -S {SIZE}",
                          "echo status $?")
        self.assertIn("status 0", told)
        self.assertIn(f"served {ROUNDS}", self.finish(server))

    def test_weft_to_rping(self):
        self.client_of_weft(f"roce+udp:{guest.HOST}", guest.GUEST, guest.GUEST)

    def test_rping_to_weft(self):
        self.server_of_weft(f"roce+udp:{guest.HOST}", guest.HOST)


if __name__ == "__main__":
    missing = rxe_test.why_not()
    if missing:
        print(f"SKIPPED: {missing}")
    else:
        guest.enter_namespaces()
        unittest.main(verbosity=2)
