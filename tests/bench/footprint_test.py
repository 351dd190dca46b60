#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libweft.so costs a program no more than the limits of bench/cost/footprint.py."""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release"))


class Footprint(unittest.TestCase):
    def test_within_the_limits(self):
        done = subprocess.run([sys.executable, ROOT / "bench/cost/footprint.py"],
                              capture_output=True, text=True, timeout=300, check=False)
        sys.stderr.write(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    cache = (BUILD / "CMakeCache.txt").read_text()
    if "CMAKE_BUILD_TYPE:STRING=Release" not in cache or not (BUILD / "bin/weft_cost").exists():
        print("SKIPPED: bench/footprint_test: the limits are of a release build, with its programs")
    else:
        unittest.main()
