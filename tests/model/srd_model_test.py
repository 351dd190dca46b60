#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The model of SRD's streams (srd.pml): hello and welcome, incarnations, epochs, sequence
numbers, reassembly."""
import unittest

import spin


class Streams(spin.ModelTest, unittest.TestCase):
    MODEL = "srd.pml"
    LEAST_STATES = 1_000_000
    RULES = ("WINDOW", "INCARNATION", "FRESHNESS", "STAMPS", "EPOCHS", "DISCARDING", "NONCE")


if __name__ == "__main__":
    unittest.main()
