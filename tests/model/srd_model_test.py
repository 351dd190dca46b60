#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Spin looks at every state of the model of SRD (srd.pml): nothing it forbids happens. The same
model with one of its rules taken out must fail, and its end must be within reach, or the check
would prove nothing."""
import pathlib
import re
import subprocess
import tempfile
import unittest

MODEL = pathlib.Path(__file__).resolve().with_name("srd.pml")
LIMIT = 300
DEPTH = "-m200000"
RULES = ("WINDOW", "INCARNATION", "CHALLENGE", "EPOCHS", "FORGETTING")


def verify(*defines):
    """What the verifier says: its errors and the states it has seen."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["spin", *(f"-D{name}" for name in defines), "-a", str(MODEL)], cwd=folder,
                       check=True, capture_output=True, timeout=LIMIT)
        subprocess.run(["gcc", "-O1", "-DSAFETY", "-o", "pan", "pan.c"], cwd=folder,
                       check=True, capture_output=True, timeout=LIMIT)
        said = subprocess.run(["./pan", DEPTH], cwd=folder, check=False, capture_output=True,
                              text=True, timeout=LIMIT).stdout
    if "max search depth too small" in said:
        raise AssertionError("the search was cut off: raise DEPTH\n" + said)
    return (int(re.search(r"errors: (\d+)", said)[1]),
            int(re.search(r"(\d+) states, stored", said)[1]), said)


class Model(unittest.TestCase):
    def test_every_state_keeps_the_promises(self):
        errors, states, said = verify()
        self.assertEqual(errors, 0, said)
        self.assertGreater(states, 500_000, "the model has become smaller than it was")

    def test_no_rule_is_idle(self):
        for rule in RULES:
            with self.subTest(rule=rule):
                errors, _, said = verify(f"WITHOUT_{rule}")
                self.assertEqual(errors, 1, said)
                self.assertIn("assertion violated", said)

    def test_the_end_can_be_reached(self):
        errors, _, said = verify("REACH")
        self.assertEqual(errors, 1, said)


if __name__ == "__main__":
    unittest.main()
