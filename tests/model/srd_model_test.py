#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The model of SRD's streams (srd.pml): sequence numbers, epochs, incarnations, reassembly."""
import unittest

import spin


class Streams(spin.ModelTest, unittest.TestCase):
    MODEL = "srd.pml"
    LEAST_STATES = 1_000_000
    RULES = ("WINDOW", "INCARNATION", "CHALLENGE", "EPOCHS", "FORGETTING", "RETIRED")


if __name__ == "__main__":
    unittest.main()
