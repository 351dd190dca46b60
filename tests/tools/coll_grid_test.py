#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A thinned grid of operations, sizes and networks: what the model chooses is within a tenth of the
best when all are simulated packet by packet, predictions are near, and nothing beats its bound. The
whole grid is a command of docs/history/results.md."""
import os
import pathlib
import re
import subprocess
import unittest

PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin/weft_coll"
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 300


def grid(*words):
    done = subprocess.run([str(PROGRAM), "grid", *words], capture_output=True, text=True,
                          timeout=LIMIT, cwd=SOURCE, check=False)
    return done.returncode, done.stdout, done.stderr


class Grid(unittest.TestCase):
    def test_choices_and_predictions_are_near_the_best_there_is(self):
        code, out, err = grid("--topology", "switch:3,switch:8,trn2-torus-4x4", "--size",
                              "4KiB,1MiB,16MiB")
        self.assertEqual(code, 0, (out, err))
        self.assertIn("# 54 cells", out)
        self.assertIn("# times that beat their bound: 0", out)

    def test_large_networks_too(self):
        code, out, err = grid("--topology", "trn3-nl72x2-gen1,trn2-ultraserver-4x4x4", "--size",
                              "64KiB", "--operation", "all_reduce,all_gather,broadcast")
        self.assertEqual(code, 0, (out, err))
        self.assertIn("# 6 cells", out)

    def test_a_goal_that_is_missed_shows(self):
        small = ("--topology", "switch:4", "--size", "64KiB")
        code, out, _ = grid(*small, "--max-over-best", "0.99")
        self.assertEqual(code, 1)
        self.assertEqual(len(re.findall("of the best, which is", out)), 6)
        code, _, _ = grid(*small, "--most-error", "0")
        self.assertEqual(code, 1)

    def test_wrong_words_are_refused(self):
        for words, said in ((("--topology", "switch:1"), "write switch:2 to switch:2048"),
                            (("--topology", "switch:4", "--operation", "barrier"),
                             "no operation 'barrier'; it has all_gather"),
                            (("--topology", "trn2-ultraserver-x256"), "up to 2048 chips"),
                            (("--topology", "switch:4", "--size", "much"), "is no size")):
            code, _, err = grid(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(said, err)


if __name__ == "__main__":
    unittest.main()
