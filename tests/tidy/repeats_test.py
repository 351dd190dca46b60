#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""repeats.py, tested with ctest itself: only what is labelled realtime is repeated, twice at most,
each repeat is named, and more than one in a hundred fails."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().with_name("repeats.py")
# Passes at the attempt of its first argument; a file counts the attempts.
SHELL = ('f="$0"; n=$(($(cat "$f" 2>/dev/null || echo 0) + 1)); echo $n > "$f"; '
         'test "$1" -ne 0 && test $n -ge "$1"')


class Repeats(unittest.TestCase):
    def run_tests(self, tests):
        """(passed, report, attempts by name) of {name: (label, attempt at which it passes)}."""
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            lines = []
            for i, (name, (label, attempt)) in enumerate(tests.items()):
                lines.append(f'add_test([=[{name}]=] sh -c [=[{SHELL}]=] "{build}/n{i}" {attempt})')
                lines.append(f'set_tests_properties([=[{name}]=] PROPERTIES LABELS {label})')
            (build / "CTestTestfile.cmake").write_text("\n".join(lines))
            subprocess.run(["ctest", "--test-dir", folder, "--output-junit", str(build / "junit")],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           check=False)
            code = subprocess.run([sys.executable, str(SCRIPT), folder, str(build / "junit"),
                                   str(build / "report")], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False).returncode
            attempts = {name: int((build / f"n{i}").read_text()) for i, name in enumerate(tests)}
            return code == 0, (build / "report").read_text(), attempts

    def test_a_realtime_test_is_repeated_and_named(self):
        name = "conformance/x_test: a (b) [c], d+e? | $f"
        passed, report, attempts = self.run_tests({name: ("conformance-realtime", 3),
                                                   "roce/y": ("roce", 1)})
        self.assertTrue(passed, report)
        self.assertIn(f"passed at attempt 3: {name}\n", report)
        self.assertEqual(attempts, {name: 3, "roce/y": 1})

    def test_any_other_test_runs_once(self):
        passed, report, attempts = self.run_tests({"roce/x": ("roce", 2),
                                                   "tools/y": ("tools-realtime", 1)})
        self.assertFalse(passed)
        self.assertIn("not repeated (no label realtime): roce/x\n", report)
        self.assertEqual(attempts["roce/x"], 1)

    def test_three_failures_are_one(self):
        passed, report, attempts = self.run_tests({"tools/x": ("tools-realtime-serial", 0)})
        self.assertFalse(passed)
        self.assertIn("failed 3 times: tools/x\n", report)
        self.assertEqual(attempts["tools/x"], 3)

    def test_more_than_one_in_a_hundred_fails(self):
        tests = {f"tools/{i}": ("tools-realtime", 2 if i < 2 else 1) for i in range(199)}
        passed, report, attempts = self.run_tests(tests)
        self.assertFalse(passed)
        self.assertIn("2 of 199 real-time tests failed at the first attempt, 1 may\n", report)
        self.assertEqual(attempts["tools/0"], 1)
        tests["tools/199"] = ("tools-realtime", 1)
        passed, report, _ = self.run_tests(tests)
        self.assertTrue(passed, report)


if __name__ == "__main__":
    unittest.main()
