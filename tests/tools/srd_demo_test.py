#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_srd_demo as a user starts it: one of eight paths is cut, and no message is lost or wrong."""
import json
import os
import pathlib
import subprocess
import unittest

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
LIMIT = 120
NET = f"127.{10 + os.getpid() % 200}.{os.getpid() // 200 % 200}"  # of this process alone


def run(*words):
    return subprocess.run([str(BIN / "weft_srd_demo"), "--hosts", f"{NET}.1,{NET}.2", *words],
                          capture_output=True, text=True, timeout=LIMIT, check=False)


class Demo(unittest.TestCase):
    short = ("--warm-up", "0.5", "--before", "0.5", "--after", "1", "--mbps", "10")

    def test_a_cut_path_harms_no_message(self):
        done = run("--json", *self.short)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        seen = json.loads(done.stdout)
        self.assertEqual((seen["errors"], seen["wrong_bytes"]), (0, 0))
        self.assertEqual(seen["bytes"], seen["messages"] * 65536)
        self.assertGreater(seen["before_mbps"], 0)
        self.assertGreater(seen["after_mbps"], 0)
        self.assertGreater(seen["lost_in_cut"], 0)
        self.assertEqual(len(seen["path_states"]), 8)
        self.assertIn(seen["path_states"][3]["state"], ("dead", "probing"))

    def test_it_prints_lines_without_a_terminal(self):
        done = run("--paths", "4", "--cut", "1", *self.short)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertTrue(any("cut |" in line for line in lines), lines)
        self.assertIn("path 1 of 4 was cut", done.stdout)
        self.assertIn(", 0 failed; 0 bytes wrong", done.stdout)
        self.assertNotIn("\033", done.stdout)

    def test_what_cannot_be_is_refused(self):
        for words, why in ((("--cut", "8"), "--cut must be below --paths"),
                           (("--size", "9"), "multiple of 8"),
                           (("--paths", "1"), "--paths"),
                           (("--set", "cc=nothing"), "nothing")):
            done = run(*words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(why, done.stderr + done.stdout, words)


if __name__ == "__main__":
    if not (BIN / "weft_srd_demo").exists():
        print("SKIPPED: tools/srd_demo_test: bench/ is not built")
    else:
        unittest.main()
