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


UNRELIABLE = ("UC", "UD")


def measure(program, *options, device, limit=drop_in.LIMIT_S):
    """Rows of the client's table, as (bytes, iterations)."""
    port = str(drop_in.free_port())
    words = [program, "-F", "-p", port, "-d", "weft0", *options]
    server, client = drop_in.pair(words, [*words, "127.0.0.1"], drop_in.at_port(int(port)),
                                  device=device, limit=limit)
    rows = [(int(size), int(count)) for size, count, _ in ROW.findall(client)]
    assert rows, f"no figures\n{server}\n{client}"
    return rows


def measure_unreliable(*words, device):
    """As measure(); perftest waits for ever for what was lost, so it is begun anew."""
    for attempt in (1, 2, 3):
        try:
            return measure(*words, device=device, limit=15)
        except AssertionError as error:
            if attempt == 3 or "not finished in time" not in str(error):
                raise
    return None


class Perftest:
    """What runs over each device."""
    device = None

    def check(self, program, *options, sizes=None):
        with self.subTest(program=program, options=options):
            unreliable = any(service in options for service in UNRELIABLE)
            rows = (measure_unreliable if unreliable else measure)(program, *options,
                                                                   device=self.device)
            if sizes:
                self.assertEqual([size for size, _ in rows], sizes)

    def test_services(self):
        for operation in OPERATIONS:
            size = [] if operation == "atomic" else ["-s", "1024"]
            for service in SERVICES[operation]:
                self.check(f"ib_{operation}_bw", "-n", "200", *size, "-c", service)
                self.check(f"ib_{operation}_lat", "-n", "50", "-c", service)

    def test_posting_by_ibv_post_send(self):
        for operation in OPERATIONS:
            self.check(f"ib_{operation}_bw", "-n", "200", "--use_old_post_send")
        self.check("ib_write_lat", "-n", "20", "--use_old_post_send", "-s", "8")

    def test_queue_pairs_lists_and_both_directions(self):
        for operation in ("write", "send", "read"):
            self.check(f"ib_{operation}_bw", "-n", "200", "-q", "4", "-s", "4096")
            self.check(f"ib_{operation}_bw", "-n", "200", "-b", "-s", "4096")
        for operation in ("write", "send"):
            self.check(f"ib_{operation}_bw", "-n", "208", "-l", "16", "-t", "64", "-s", "4096")

    def test_events(self):
        for operation in ("send", "read"):
            self.check(f"ib_{operation}_bw", "-n", "200", "-e", "-s", "4096")
        self.check("ib_atomic_bw", "-n", "200", "-e")
        self.check("ib_send_lat", "-n", "200", "-e")

    def test_shared_receive_queues(self):
        self.check("ib_send_bw", "-n", "200", "--use-srq", "-q", "2", "-s", "4096")
        self.check("ib_send_lat", "-n", "50", "--use-srq")

    def test_other_options(self):
        counters = "counters/port_xmit_packets,hw_counters/sent_pkts"
        for options in (["-D", "1"], ["-N"], ["-I", "0", "-s", "8"], ["-r", "64", "-t", "16"],
                        ["-Q", "10"], ["-m", "1024"], ["-S", "3"], ["--odp"],
                        ["--report-counters", counters]):
            number = [] if "-D" in options else ["-n", "200"]
            self.check("ib_send_bw", "-s", "4096", *number, *options)

    def test_loss_costs_time_and_nothing_else(self):
        for operation in ("write", "send", "read"):
            program, lossy = f"ib_{operation}_bw", f"{self.device},fault.loss=0.01,fault.seed=7"
            rows = measure(program, "-n", "200", "-s", "4096", device=lossy)
            self.assertEqual(rows, [(4096, 200)])


class OverUdp(Perftest, unittest.TestCase):
    device = drop_in.UDP

    def test_multicast(self):
        """Its own group, which is of IPv6, and one of IPv4."""
        group = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"
        for options in ([], ["-M", group]):
            self.check("ib_send_lat", "-c", "UD", "-g", "-n", "50", *options)

    def test_ipv6(self):
        """The device's address is of IPv4, and its GID at index 1 is the interface's of IPv6."""
        if "::1, RoCE v2" not in drop_in.succeed("ibv_devinfo", "-v"):
            self.skipTest("no ::1")
        for options in (["-x", "1"], ["--ipv6"]):
            self.check("ib_send_bw", "-n", "200", "-s", "4096", *options)
        self.check("ib_write_lat", "-n", "20", "-x", "1")

    def test_what_perftest_refuses(self):
        """It says so itself, on real devices as well."""
        code, output = drop_in.run("ib_write_bw", "-e")
        self.assertEqual(code, 1)
        self.assertIn("Events feature not available on WRITE verb", output)


class Srd(unittest.TestCase):
    """By libefa. perftest 4.5 has SENDs and READs of SRD, and no events or WRITEs."""

    def test_sends_and_reads(self):
        shm = f"srd+shm:{drop_in.SHM.split(':')[1]}"
        for device, program, pairs in (("srd+udp:lo", "ib_send_bw", 2),
                                       ("srd+udp:lo", "ib_send_lat", 1), (shm, "ib_send_bw", 1),
                                       ("srd+udp:lo", "ib_read_lat", 1), (shm, "ib_read_bw", 2)):
            with self.subTest(device=device, program=program, pairs=pairs):
                more = ["-q", "2"] if pairs == 2 else []
                rows = measure(program, "-c", "SRD", "-n", "200", "-s", "4096", *more,
                               device=device)
                self.assertEqual(rows, [(4096, 200 * pairs)])


class OverShm(Perftest, unittest.TestCase):
    device = drop_in.SHM

    def test_all_sizes(self):
        sizes = [1 << i for i in range(1, 24)]
        for operation in ("write", "send", "read"):
            self.check(f"ib_{operation}_bw", "-a", "-n", "5", sizes=sizes)
        self.check("ib_send_bw", "-a", "-n", "20", "-c", "UD")


if __name__ == "__main__":
    drop_in.main("ib_write_bw")
