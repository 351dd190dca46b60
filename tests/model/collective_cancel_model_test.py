#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The model of how a collective call is canceled (collective_cancel.pml)."""
import unittest

import spin


class Cancel(spin.ModelTest, unittest.TestCase):
    MODEL = "collective_cancel.pml"
    LEAST_STATES = 1_000_000
    RULES = ("STOP", "DROP", "ADVERTISED", "SENT", "ARRIVED", "RECEIVED", "SPREAD")


if __name__ == "__main__":
    unittest.main()
