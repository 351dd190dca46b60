# SPDX-License-Identifier: BSD-3-Clause
"""Has Spin look at every state of a model in this folder."""
import pathlib
import re
import subprocess
import tempfile

LIMIT = 300
DEPTH = "-m200000"


def verify(model, *defines):
    """What the verifier says: its errors and the states it has seen."""
    source = pathlib.Path(__file__).resolve().with_name(model)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["spin", *(f"-D{name}" for name in defines), "-a", str(source)], cwd=folder,
                       check=True, capture_output=True, timeout=LIMIT)
        subprocess.run(["gcc", "-O1", "-DSAFETY", "-o", "pan", "pan.c"], cwd=folder,
                       check=True, capture_output=True, timeout=LIMIT)
        said = subprocess.run(["./pan", DEPTH], cwd=folder, check=False, capture_output=True,
                              text=True, timeout=LIMIT).stdout
    if "max search depth too small" in said:
        raise AssertionError("the search was cut off: raise DEPTH\n" + said)
    return (int(re.search(r"errors: (\d+)", said)[1]),
            int(re.search(r"(\d+) states, stored", said)[1]), said)


class ModelTest:
    """Nothing that the model forbids happens. The same model with one of its rules taken out must
    fail, and its end must be within reach, or the check would prove nothing."""
    MODEL = ""
    DEFINES = ()
    LEAST_STATES = 0
    RULES = ()

    def test_every_state_keeps_the_promises(self):
        errors, states, said = verify(self.MODEL, *self.DEFINES)
        self.assertEqual(errors, 0, said)
        self.assertGreater(states, self.LEAST_STATES, "the model has become smaller than it was")

    def test_no_rule_is_idle(self):
        for rule in self.RULES:
            with self.subTest(rule=rule):
                errors, _, said = verify(self.MODEL, *self.DEFINES, f"WITHOUT_{rule}")
                self.assertEqual(errors, 1, said)
                self.assertIn("assertion violated", said)

    def test_the_end_can_be_reached(self):
        errors, _, said = verify(self.MODEL, *self.DEFINES, "REACH")
        self.assertEqual(errors, 1, said)
