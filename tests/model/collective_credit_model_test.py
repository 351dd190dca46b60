#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The model of the collectives' credit scheme (collective_credit.pml)."""
import unittest

import spin


class Credit(spin.ModelTest, unittest.TestCase):
    MODEL = "collective_credit.pml"
    LEAST_STATES = 50_000
    RULES = ("CREDIT", "COMPLETION", "NEWEST", "MESSAGES", "AGAIN")


class OrderedCredit(spin.ModelTest, unittest.TestCase):
    MODEL = "collective_credit.pml"
    DEFINES = ("ORDERED",)
    LEAST_STATES = 1_000
    RULES = ("CREDIT", "COMPLETION", "MESSAGES", "SIGNALS")


if __name__ == "__main__":
    unittest.main()
