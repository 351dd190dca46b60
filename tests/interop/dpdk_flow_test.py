#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Flows that come to the wrong queue of a DPDK device with two engines: net_tap, whose rte_flow is
the kernel's TC, and over the kernel a udp peer. With TC a rule brings the flow to its engine and no
more frames are handed over; without, the refusal is counted and the hand-over goes on.

A kernel without TC's multiq, flower and skbedit tests the second here, and the first in a guest
with Debian's kernel, if that is there.
"""
import pathlib
import subprocess
import sys
import unittest

import dpdk_test
import exchanges
import guest
import guest_job
import machine
import suite
from af_packet_test import CLOSE

TAP = "weft-flow"
HERE = "--here"  # run the tests in the namespace that we are in
LIMIT_S = 100


def lacks_tc():
    """What the kernel of this namespace cannot do of what net_tap asks of it, or None."""
    guest.run("ip", "tuntap", "add", "dev", "tc-probe", "mode", "tap", "multi_queue")
    try:
        for words in ("qdisc add dev tc-probe root handle 1: multiq",
                      "qdisc add dev tc-probe ingress",
                      "filter add dev tc-probe parent 1: protocol ip flower ip_proto udp "
                      "action skbedit queue_mapping 1"):
            done = subprocess.run(["tc", *words.split()], capture_output=True, check=False)
            # A tap that no process has opened has one queue, and multiq wants several.
            if done.returncode and b"not supported" not in done.stderr:
                return words
        return None
    finally:
        guest.run("ip", "link", "del", "tc-probe")


class Steered(unittest.TestCase):
    """The kernel spreads flows over the two queues of the tap, whatever their queue pairs."""

    @classmethod
    def setUpClass(cls):
        cls.close = exchanges.start_weft(cls, "close")
        cls.wire = exchanges.Wire(
            {cls.close: dpdk_test.device("net_tap", iface=TAP) + ",engines=2"})
        guest.run("ip", "addr", "add", f"{CLOSE}/24", "dev", TAP)
        guest.run("ip", "link", "set", TAP, "up")
        cls.kernel = exchanges.start_weft(cls, "kernel")
        cls.wire.add(cls.kernel, f"roce+udp:{TAP}")

    def counted(self, counter):
        return dpdk_test.counted(self.close.process, f"dpdk_{counter}")

    def write(self, count):
        move = exchanges.Move(self.wire, (self.kernel, self.close), "write", count, 64)
        move.prepare()
        move.begin()
        move.end(self)
        move.check(self)

    def find_misplaced(self):
        """A connection whose frames come to the wrong queue."""
        for _ in range(40):
            before = self.counted("handed_over")
            self.wire.connect()
            self.write(8)
            if self.counted("handed_over") >= before + 8:
                return
        self.fail("no connection comes to the wrong queue")

    def test_a_rule_ends_the_hand_over(self):
        if words := lacks_tc():
            self.skipTest(f"this kernel refuses `tc {words}`")
        self.find_misplaced()
        rules = self.counted("flow_rules")
        self.write(400)
        dpdk_test.wait_for(self, lambda: self.counted("flow_rules") > rules)
        self.write(8)  # what was in progress
        before = self.counted("handed_over")
        self.write(2000)
        self.assertEqual(self.counted("handed_over"), before)
        self.assertEqual(self.counted("flow_rules_refused"), 0)
        shown = guest.run("tc", "filter", "show", "dev", TAP, "parent", "1:")
        self.assertIn("dst_port 4791", shown)
        self.assertIn("queue_mapping", shown)

    def test_refused_the_hand_over_goes_on(self):
        self.find_misplaced()
        self.write(400)
        dpdk_test.wait_for(self, lambda: self.counted("flow_rules_refused") > 0)
        before = self.counted("handed_over")
        self.write(200)
        self.assertGreaterEqual(self.counted("handed_over"), before + 200)
        self.assertEqual(self.counted("flow_rules"), 0)
        self.assertEqual(self.counted("handed_drops"), 0)


class InGuest(unittest.TestCase):
    """The same where the kernel is Debian's."""

    lacks = ""  # what this kernel does not do

    def setUp(self):
        if no_guest := machine.STOCK.why_not():
            self.skipTest(f"this kernel refuses `tc {self.lacks}`; {no_guest}")

    def test_a_rule_ends_the_hand_over(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        outcome = guest_job.run(machine.STOCK, "\n".join((
            "rdma link delete rxe0; rmmod rdma_rxe || exit 1",  # it holds port 4791
            f"cd {root}", f"export WEFT_BUILD={exchanges.BIN.parent} PYTHONDONTWRITEBYTECODE=1",
            f"exec python3 {pathlib.Path(__file__).resolve()} {HERE} -v "
            "Steered.test_a_rule_ends_the_hand_over")), LIMIT_S)
        self.assertEqual(outcome.status, 0, outcome.output)
        self.assertIn("Ran 1 test", outcome.output)
        self.assertNotIn("skipped", outcome.output)


def main():
    if HERE in sys.argv:
        unittest.main(argv=[word for word in sys.argv if word != HERE])
    reason = dpdk_test.why_not()
    if reason:
        suite.skip(reason)
        return
    guest.enter_namespaces()
    lacks = lacks_tc()
    if not lacks:
        del Steered.test_refused_the_hand_over_goes_on
        suite.run(Steered)
    del Steered.test_a_rule_ends_the_hand_over
    InGuest.lacks = lacks
    suite.run(Steered, InGuest)


if __name__ == "__main__":
    main()
