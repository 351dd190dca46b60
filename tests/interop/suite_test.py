#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What could not run is seen by name: in what a script prints, and by tests/tidy/skips.py; and a
script in which something failed is not taken for one that was skipped."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.sax import saxutils

import suite

FOLDER = pathlib.Path(__file__).resolve().parent
SKIPS = FOLDER.parent / "tidy" / "skips.py"
SCRIPT = """
import unittest
import suite

class Lacking(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("no such thing here")
    def test_it(self):
        pass

class There(unittest.TestCase):
    def test_this(self):
        self.assertEqual(1, NUMBER)
    def test_that(self):
        self.skipTest("not today")

suite.run()
"""
MARKS = ["SKIPPED: interop/sample_test:Lacking: no such thing here",
         "SKIPPED: interop/sample_test:There.test_that: not today"]


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "interop"
        self.folder.mkdir()

    def play(self, number):
        script = self.folder / "sample_test.py"
        script.write_text(SCRIPT.replace("NUMBER", number))
        return subprocess.run([sys.executable, script], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": str(FOLDER)})

    def test_each_part_is_named(self):
        done = self.play("1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), MARKS)

    def test_a_failure_is_no_skip(self):
        done = self.play("2")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("SKIPPED", done.stdout + done.stderr)
        self.assertIn("not run: Lacking: no such thing here", done.stdout)

    def check_skips(self, permitted):
        """What skips.py says where that is permitted: its exit code and lines."""
        said = saxutils.escape("\n".join(MARKS))
        junit, names = self.folder / "junit.xml", self.folder / "permitted.txt"
        junit.write_text('<testsuite><testcase name="interop/sample_test" status="notrun">'
                         f"<skipped/><system-out>{said}</system-out></testcase></testsuite>")
        names.write_text("\n".join(permitted))
        done = subprocess.run([sys.executable, SKIPS, junit, names], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout

    def test_each_part_is_permitted_by_name(self):
        status, said = self.check_skips(["interop/sample_test:Lacking  # missing",
                                   "interop/sample_test:There.*  # missing"])
        self.assertEqual(status, 0, said)
        self.assertIn("skipped: interop/sample_test:Lacking (no such thing here)\n", said)
        status, said = self.check_skips(["interop/sample_test  # all of it",
                                         "*:Lacking  # missing"])
        self.assertEqual(status, 1, said)
        self.assertIn("There.test_that (not today): NOT PERMITTED", said)


if __name__ == "__main__":
    suite.run()
