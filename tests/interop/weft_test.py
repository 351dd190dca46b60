#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges of rxe_test.py with weft at both ends: what fails there and not here is between two
implementations, and what fails here too is ours, or the test's."""
import os
import unittest

import dialogues
import exchanges
import suite

class Weft(exchanges.Exchanges, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ends = [exchanges.start_weft(cls, name) for name in ("one", "other")]
        cls.wire = exchanges.Wire({end: "roce+udp:lo" for end in ends})

    def test_dialogues(self):
        end = next(iter(self.wire.open))
        dialogues.check(self, self.wire, end, "weft", self.free_address())

    @staticmethod
    def free_address():
        """One of 127/8 that no device has; they claim the lowest ones."""
        return f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"


if __name__ == "__main__":
    suite.run()
