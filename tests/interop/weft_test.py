#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges of rxe_test.py with weft at both ends: what fails there and not here is between two
implementations, and what fails here too is ours, or the test's."""
import unittest

import exchanges

class Weft(exchanges.Exchanges, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ends = [exchanges.start_weft(cls, name) for name in ("one", "other")]
        cls.wire = exchanges.Wire({end: "roce+udp:lo" for end in ends})


if __name__ == "__main__":
    unittest.main()
