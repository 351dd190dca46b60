#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""The README's demonstration of collectives, run as it says there: a network is cut and no
call fails, a rank is killed and all others name it, and the others go on."""
import os
import pathlib
import re
import subprocess
import unittest

PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")) / "bin/weft_coll_demo"
LIMIT = 300


class Demo(unittest.TestCase):
    def check(self, network, *words):
        done = subprocess.run([str(PROGRAM.resolve()), *words], capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        if done.stdout.startswith("SKIPPED: "):
            print(f"SKIPPED: tools/coll_demo_test: {done.stdout.removeprefix('SKIPPED: ')}")
            return
        self.assertEqual(done.returncode, 0, done)
        says = re.sub(r" *rank \d: PEER_FAILED: rank 2 failed during all_reduce #\d+.*\n",
                      "named\n", done.stdout)
        self.assertEqual(says.splitlines(), [
            "20 rounds verified: all_reduce of 128 KiB bf16, 4 ranks, 2 networks",
            f"network {network} is cut",
            "20 more rounds verified, no rank has got an error",
            "rank 2 is killed",
            "named", "named", "named",
            "shrink: a group of 3 ranks",
            "20 rounds verified by the 3 remaining ranks"], done)

    def test_it_shows_what_it_says(self):
        self.check("10.32.0.0")

    def test_survivors_find_each_other_by_the_network_that_is_left(self):
        self.check("10.31.0.0", "first")


if __name__ == "__main__":
    unittest.main()
