#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_nccl_check itself: the plug-in over TCP sockets passes; with one rule broken it fails at
that rule, and at none before it; a plug-in without a device does not pass."""
import os
import subprocess
import unittest

import nccl_tools
from nccl_tools import CHECK, SOCKET, SOCKET_VERSIONS, check

# Each breaks one rule of tests/nccl_socket, in the order in which the rules run.
FAULTS = {
    "properties": "no name",
    "connect": "accept",
    "sizes": "wrong data",
    "alignment": "wrong data|overwritten",
    "zero": "not done",
    "order": "wrong data|overwritten|returns",
    "groups": "wrong data|overwritten|returns|test.. says",
    "full": "irecv.. returns internal error",
    "connections": "not done",
    "registration": "regMr.. returns system error",
    "remapped": "not that of the memory",
    "flush": "iflush.. is not done",
    "optional": "does not arrive",
    "close": "died of Aborted in close",
    "death": "does not end in an error",
}


class Baseline(unittest.TestCase):
    def test_every_version_passes(self):
        report = check(SOCKET, "--rules", "properties,connect,sizes,groups,zero,full,all-reduce",
                       "--max-size", 1 << 20)
        self.assertEqual(report.code, 0, report)
        self.assertEqual([each["version"] for each in report.all["versions"]],
                         SOCKET_VERSIONS)

    def test_every_rule_passes(self):
        report = check(SOCKET, "--versions", 12, "--max-size", 4 << 20)
        self.assertEqual(report.code, 0, report)
        verdicts = report.verdicts(12)
        self.assertEqual({rule for rule in verdicts if verdicts[rule] != "pass"}, {"virtual"})
        self.assertGreaterEqual(len(verdicts), 20)

    def test_four_ranks(self):
        report = check(SOCKET, "--versions", 8, "-r", 4, "--max-size", 1 << 18)
        self.assertEqual(report.code, 0, report)

    def test_each_fault_is_found_at_its_rule(self):
        for fault, text in FAULTS.items():
            with self.subTest(fault=fault):
                rules = [*list(FAULTS)[:list(FAULTS).index(fault)][-2:], fault]
                report = check(SOCKET, "--versions", 10, "--max-size", 1 << 18, "--limit", 1,
                               "--rules", ",".join(rules), WEFT_NCCL_BREAK=fault)
                self.assertEqual(report.code, 1, report)
                verdicts = report.verdicts(10)
                self.assertEqual([rule for rule in verdicts if verdicts[rule] == "FAIL"], [fault])
                self.assertRegex(report.text(10, fault), text)

    def test_the_rank_that_is_to_die_fails_before(self):
        for attempt in range(4):  # in each, either rank may be the first that fails
            with self.subTest(attempt=attempt):
                report = check(SOCKET, "--versions", 10, "--rules", "death",
                               WEFT_NCCL_BREAK="irecv")
                self.assertEqual(report.code, 1, report)
                self.assertRegex(report.text(10, "death"), "irecv.. returns system error")

    def test_finalize(self):
        report = check(SOCKET, "--versions", "10,12", "--rules", "zero", WEFT_NCCL_BREAK="finalize")
        self.assertEqual(report.code, 1, report)
        self.assertEqual([(each["verdict"], each["text"]) for each in report.all["versions"]],
                         [("pass", ""), ("FAIL", "rank 0: finalize() returns system error")])

    def test_handles_have_the_size_of_their_version(self):
        report = check(SOCKET, "--versions", "4,12", "--rules", "connect", WEFT_NCCL_BREAK="handle")
        for version, size in ((4, 64), (12, 128)):
            self.assertRegex(report.text(version, "connect"), f"behind the {size} bytes")

    def test_a_name_that_is_no_text(self):
        report = check(SOCKET, "--versions", 10, "--rules", "properties", WEFT_NCCL_BREAK="name")
        self.assertEqual(report.code, 0, report)

    def test_no_device_is_no_pass(self):
        report = check(SOCKET, WEFT_NCCL_BREAK="devices")
        self.assertEqual(report.code, 3, report)
        self.assertEqual({each["verdict"] for each in report.all["versions"]}, {"no device"})


class Options(unittest.TestCase):
    def refused(self, *words):
        done = subprocess.run([CHECK, *map(str, words)], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        return done.stderr

    def test_wrong_ones(self):
        self.assertIn("which LIB", self.refused())
        self.assertIn("nonesuch.so", self.refused("nonesuch.so"))
        self.assertIn("no rule bogus", self.refused(SOCKET, "--rules", "sizes,bogus"))
        self.assertIn("ncclNetPlugin_v3", self.refused(SOCKET, "--versions", "3"))
        self.assertIn("exports no ncclNetPlugin", self.refused("libc.so.6"))
        self.assertIn("--ranks", self.refused(SOCKET, "-r", "9"))

    def test_the_same_again_has_the_options(self):
        options = ["--quick", "--versions", "10", "--rules", "zero", "--max-size", "4096",
                   "--limit", "1"]
        done = subprocess.run([CHECK, SOCKET, *options], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "WEFT_NCCL_BREAK": "zero"})
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f"the same again: {CHECK} {SOCKET} {' '.join(options)} --seed 1\n",
                      done.stdout)

    def test_the_list_names_each_rule(self):
        said = subprocess.run([CHECK, "--list"], capture_output=True, text=True, check=True).stdout
        for rule in FAULTS:
            self.assertRegex(said, rf"(?m)^{rule} +\w")


if __name__ == "__main__":
    nccl_tools.main()
