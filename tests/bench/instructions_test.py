#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Small requests cost no more instructions than is recorded in bench/cost/instructions.json."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Instructions(unittest.TestCase):
    @unittest.skipUnless(shutil.which("valgrind"), "no valgrind")
    def test_no_row_has_grown(self):
        done = subprocess.run([sys.executable, ROOT / "bench/cost/instructions.py"],
                              capture_output=True, text=True, timeout=300, check=False)
        sys.stderr.write(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        if "not compared" in done.stdout:
            self.skipTest(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main(verbosity=2)
