#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's perftest, unmodified, under weft-run: each program with each service and option that it
accepts, over UDP and over shared memory.

perftest compares no payload; what it reports must be complete, and what it refuses is listed.
"""
import itertools
import re
import unittest

import drop_in

# One row of the table at the end: bytes, iterations, and the figures.
ROW = re.compile(r"^ (\d+) +(\d+) +([\d.]+) ", re.M)
OPERATIONS = ("write", "send", "read", "atomic")
# perftest accepts no other services of them (perftest_parameters.c).
SERVICES = {"write": ("RC", "UC", "XRC"), "send": ("RC", "UC", "UD", "XRC"),
            "read": ("RC", "XRC"), "atomic": ("RC", "XRC")}


def measure(program, *options, device):
    """Rows of the client's table, as (bytes, iterations)."""
    port = str(drop_in.free_port())
    words = [program, "-F", "-p", port, "-d", "weft0", *options]
    server, client = drop_in.pair(words, [*words, "127.0.0.1"], drop_in.at_port(port=int(port)),
                                  device=device)
    rows = [(int(size), int(count)) for size, count, _ in ROW.findall(client)]
    assert rows, f"no figures\n{server}\n{client}"
    return rows


class Perftest:
    """What runs over each device."""
    device = None

    def check(self, program, *options, sizes=None):
        with self.subTest(program=program, options=options):
            rows = measure(program, *options, device=self.device)
            if sizes:
                self.assertEqual([size for size, _ in rows], sizes)

    def test_services(self):
        for operation, kind in itertools.product(OPERATIONS, ("bw", "lat")):
            for service in SERVICES[operation]:
                self.check(f"ib_{operation}_{kind}", "-n", "200", "-c", service)

    def test_events(self):
        for operation in ("write", "send", "read", "atomic"):
            self.check(f"ib_{operation}_bw", "-n", "200", "-e")
        for operation in ("send",):
            self.check(f"ib_{operation}_lat", "-n", "200", "-e")

    def test_all_sizes(self):
        sizes = [1 << i for i in range(1, 24)]
        for operation in ("write", "send", "read"):
            self.check(f"ib_{operation}_bw", "-a", "-n", "10", sizes=sizes)
        self.check("ib_send_bw", "-a", "-n", "20", "-c", "UD")
        self.check("ib_write_lat", "-a", "-n", "5", sizes=sizes)

    def test_queue_pairs_lists_and_both_directions(self):
        for operation in ("write", "send", "read"):
            self.check(f"ib_{operation}_bw", "-n", "200", "-q", "4", "-s", "4096")
            self.check(f"ib_{operation}_bw", "-n", "200", "-b", "-s", "4096")
        for operation in ("write", "send"):
            self.check(f"ib_{operation}_bw", "-n", "208", "-l", "16", "-t", "64", "-s", "4096")

    def test_shared_receive_queues(self):
        self.check("ib_send_bw", "-n", "200", "--use-srq", "-q", "2", "-s", "4096")
        self.check("ib_send_lat", "-n", "200", "--use-srq")

    def test_posting_by_ibv_post_send(self):
        for operation in OPERATIONS:
            self.check(f"ib_{operation}_bw", "-n", "200", "--use_old_post_send")
        self.check("ib_write_lat", "-n", "200", "--use_old_post_send", "-s", "8")

    def test_other_options(self):
        for options in (["-D", "1"], ["-N", "-n", "200"], ["-I", "0", "-n", "200", "-s", "8"],
                        ["-r", "64", "-t", "16", "-n", "200"], ["-Q", "10", "-n", "200"],
                        ["-m", "1024", "-n", "200"], ["-S", "3", "-n", "200"]):
            self.check("ib_send_bw", *options)


class OverUdp(Perftest, unittest.TestCase):
    device = drop_in.UDP


class OverShm(Perftest, unittest.TestCase):
    device = drop_in.SHM


if __name__ == "__main__":
    drop_in.main("ib_write_bw")
