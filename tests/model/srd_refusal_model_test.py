#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The model of messages that SRD refuses and sends again, and of ordered ones (srd_refusal.pml)."""
import unittest

import spin


class Refusals(spin.ModelTest, unittest.TestCase):
    MODEL = "srd_refusal.pml"
    LEAST_STATES = 2_000_000
    RULES = ("ABORT", "FINAL", "RESERVE", "HOLD")


if __name__ == "__main__":
    unittest.main()
