#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""Four ranks all-reduce over three networks each (rails of SRD). One network goes away in progress:
every result is right without an error. Then a rank is killed: every survivor names it.

    python3 tests/interop/coll_rails_test.py    # as root; WEFT_BUILD names the build directory
"""
import os
import subprocess
import tempfile
import unittest

import exchanges
import guest

RANKS = 4
NETS = ("10.31.0", "10.32.0", "10.33.0")
LIMIT = 120


def address(net, rank):
    return f"{net}.{rank + 1}"


def give(net):
    for rank in range(RANKS):
        guest.run("ip", "addr", "replace", f"{address(net, rank)}/32", "dev", "lo")


def take(net):
    for rank in range(RANKS):
        guest.run("ip", "addr", "del", f"{address(net, rank)}/32", "dev", "lo")


class Rails(unittest.TestCase):
    def setUp(self):
        for net in NETS:
            give(net)

    def start(self, folder, *words):
        """The ranks as processes, each with the addresses of its own."""
        ranks = []
        for rank in range(RANKS):
            first, *others = (address(net, rank) for net in NETS)
            device = f"srd+udp:{first},rails={'+'.join(others)}"
            ranks.append(subprocess.Popen(
                [str(exchanges.BIN / "weft_coll"), "all_reduce", "--type", "bf16", "-d", device,
                 "--store", f"file:{folder}/meet", *words],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank),
                     "OMPI_COMM_WORLD_SIZE": str(RANKS)}))
            self.addCleanup(ranks[-1].kill)
        return ranks

    def first_line(self, ranks):
        """Rank 0's table has begun: a size is measured."""
        for line in ranks[0].stdout:
            if line.split()[:1] == ["65536"]:
                return
        self.fail(ranks[0].communicate(timeout=LIMIT)[1])

    def test_a_network_goes_away_during_transfer(self):
        for net in NETS[:2]:
            with tempfile.TemporaryDirectory() as folder:
                ranks = self.start(folder, "-b", "64K", "-e", "2M", "-n", "20", "-w", "1")
                self.first_line(ranks)
                take(net)
                self.assertEqual([rank.poll() for rank in ranks], [None] * RANKS, "too early")
                texts = [rank.communicate(timeout=LIMIT) for rank in ranks]
            give(net)
            self.assertEqual([rank.returncode for rank in ranks], [0] * RANKS, texts)
            self.assertIn("# Wrong elements: 0 OK", texts[0][0])
            self.assertEqual([text[1] for text in texts], [""] * RANKS)

    def test_a_rank_is_killed_when_a_network_has_gone(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = self.start(folder, "-b", "64K", "-e", "1M", "-f", "16", "-n", "20", "-w", "1",
                               "--check", "none", "--kill", "2")
            self.first_line(ranks)
            take(NETS[1])
            texts = [rank.communicate(timeout=LIMIT) for rank in ranks]
        give(NETS[1])
        self.assertEqual([rank.returncode for rank in ranks], [1, 1, -9, 1], texts)
        for rank in (0, 1, 3):
            # A rank that had all pieces before is in the barrier of the next call.
            self.assertRegex(texts[rank][1], f"rank {rank}: PEER_FAILED: rank 2 failed during "
                                             "(all_reduce|barrier) #")


if __name__ == "__main__":
    guest.run_tests()
