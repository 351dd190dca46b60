#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a program that only lists its devices takes more under weft-run than an empty one: no
library of a port, no thread, and little memory of its own. Counts, no times; with --print, times
too."""
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

import drop_in

SOURCE = pathlib.Path(__file__).with_name("light_lists.c")
MOST_BYTES = 2 << 20
# Of DPDK, AF_XDP and OpenSSL, and weft's modules.
HEAVY = re.compile(r"^maps (librte_|libbpf|libxdp|libcrypto|libssl|port_|provider_)", re.M)


def compiled(folder, *options):
    program = pathlib.Path(folder, "lists" if not options else "empty")
    words = ["cc", "-O1", "-o", program, SOURCE, *(options or ["-libverbs"])]
    subprocess.run(words, check=True, timeout=120)
    return program


def kibibytes(said, name):
    return int(re.search(rf"^{name}: +(\d+) kB", said, re.M).group(1))


class Light(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="weft-light-")
        cls.program = compiled(cls.folder.name)
        cls.empty = compiled(cls.folder.name, "-DEMPTY")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def said(self, device="roce+udp:lo"):
        return drop_in.succeed(self.program, device=device)

    def test_no_thread_and_no_library_of_a_port(self):
        for device in ("roce+udp:lo", "roce+shm", "srd+udp:lo", "roce+dpdk:net_null0",
                       "roce+udp:lo;roce+shm"):
            with self.subTest(device=device):
                said = self.said(device)
                self.assertIn("device weft0", said)
                self.assertIn("threads 1\n", said)
                self.assertIsNone(HEAVY.search(said), said)

    def test_memory(self):
        """Of the process alone: pages of libraries that others have mapped are not counted."""
        empty = subprocess.run([self.empty], check=True, capture_output=True, text=True).stdout
        said = self.said()
        more = sum(kibibytes(said, kind) - kibibytes(empty, kind)
                   for kind in ("Private_Clean", "Private_Dirty"))
        self.assertLess(more * 1024, MOST_BYTES, said)


def measure():
    """The processor time of both programs, in turns, and their memory."""
    with tempfile.TemporaryDirectory(prefix="weft-light-") as folder:
        programs = {"lists": compiled(folder), "empty": compiled(folder, "-DEMPTY")}
        exports = subprocess.run([drop_in.RUN, "-d", "roce+udp:lo", "--env=file"], check=True,
                                 capture_output=True, text=True).stdout
        variables = dict(line.split("=", 1) for line in exports.splitlines())
        times = {name: [] for name in programs}
        for _ in range(100):
            for name, program in programs.items():
                said = subprocess.run(
                    [program], check=True, capture_output=True, text=True,
                    env=drop_in.environment(**(variables if name == "lists" else {}))).stdout
                times[name].append(int(re.search(r"cpu_us (\d+)", said).group(1)))
        for name in programs:
            print(f"{name}: processor time median {statistics.median(times[name]):.0f} us, "
                  f"least {min(times[name])} us")
        print(subprocess.run([programs["lists"]], check=True, capture_output=True, text=True,
                             env=drop_in.environment(**variables)).stdout)
        print(subprocess.run([programs["empty"]], check=True, capture_output=True,
                             text=True).stdout)


if __name__ == "__main__":
    if "--print" in sys.argv:
        measure()
    else:
        drop_in.main("cc")
