#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of ibverbs-utils, unmodified, under weft-run: the five pingpongs with each option
that they have, the lists of devices, and asynchronous events."""
import re
import subprocess
import tempfile
import unittest

import drop_in

DONE = re.compile(r"\d+ iters in [\d.]+ seconds|success")
PINGPONGS = {"ibv_rc_pingpong": ["-s", "4096"], "ibv_uc_pingpong": ["-s", "4096"],
             "ibv_ud_pingpong": ["-s", "1024"], "ibv_srq_pingpong": ["-s", "4096"],
             "ibv_xsrq_pingpong": ["-s", "4096"]}


def play(program, *options, device):
    """Both ends of a pingpong over the GID at index 0."""
    port = drop_in.free_port()
    words = [program, "-p", str(port), "-g", "0", "-n", "50", *PINGPONGS[program], *options]
    for output in drop_in.pair(words, [*words, "127.0.0.1"], drop_in.at_port(port), device=device):
        assert DONE.search(output), output


class Pingpongs(unittest.TestCase):
    def test_each(self):
        for program in PINGPONGS:
            for device in (drop_in.UDP, drop_in.SHM):
                for options in ([], ["-e"]):
                    with self.subTest(program=program, device=device, options=options):
                        play(program, *options, device=device)

    def test_options_of_rc(self):
        """-c compares the received bytes; -t takes completion times, -N posts by ibv_wr_*, -o
        registers on demand, -P prefetches, -j sends from device memory."""
        for options in (["-c"], ["-t"], ["-N"], ["-o"], ["-o", "-P"], ["-j"], ["-t", "-c", "-e"]):
            with self.subTest(options=options):
                play("ibv_rc_pingpong", *options, device=drop_in.UDP)

    def test_bytes_are_compared_under_loss(self):
        play("ibv_rc_pingpong", "-c", device=f"{drop_in.UDP},fault.loss=0.01,fault.seed=3")


class Lists(unittest.TestCase):
    def test_several_devices(self):
        output = drop_in.succeed("ibv_devinfo", "-v", device=f"{drop_in.UDP};{drop_in.SHM}")
        self.assertEqual(re.findall(r"(?m)^hca_id:\s+(\w+)$", output), ["weft0", "weft1"])
        self.assertEqual(output.count("PORT_ACTIVE (4)"), 2)
        self.assertGreaterEqual(len(re.findall(r"GID\[ *0\]:\s+\S+, RoCE v2", output)), 2)

    def test_a_capture_of_what_a_program_sends(self):
        if drop_in.missing("tshark"):
            self.skipTest(drop_in.missing("tshark"))
        with tempfile.TemporaryDirectory(prefix="weft-capture-") as folder:
            play("ibv_rc_pingpong", device=f"{drop_in.UDP},pcap={folder}/pcap")
            shown = subprocess.run(["tshark", "-r", f"{folder}/pcap", "-Y", "infiniband"],
                                   capture_output=True, text=True, timeout=60, check=False)
            self.assertTrue("RC Send Last" in shown.stdout, shown.stdout[:1000] + shown.stderr)


if __name__ == "__main__":
    drop_in.main("ibv_rc_pingpong")
