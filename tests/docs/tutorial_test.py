#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: realtime
"""Does what the tutorials say, each in its order, in a folder that has nothing but the build.

`<!-- file: NAME -->` before a block: it is appended to that file. `<!-- run -->`: bash runs it, and
with `<!-- run; prints: REGEX -->` its output must match. `<!-- not run: WHY -->`: neither.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
BLOCK = re.compile(r"(?:<!-- (.*?) -->\n)?```(\w+)\n(.*?)```", re.S)
LONGEST_S = 120
# The tutorials, and how many commands each has at least.
TUTORIALS = {"tutorial.md": 7, "c.md": 2, "python.md": 3,
             "simulator-python.md": 3}


def blocks(page):
    return BLOCK.findall((ROOT / "docs" / page).read_text())


def environment(home):
    env = dict(os.environ, HOME=home)
    env["PATH"] = f"{pathlib.Path(sys.executable).parent}:{env['PATH']}"
    env.pop("WEFT_DEVICE", None)
    if sanitizer():  # a program that links a sanitized library needs the same
        env["CXXFLAGS"] = f"-fsanitize={sanitizer()}"
    return env


def sanitizer():
    cache = (BUILD / "CMakeCache.txt").read_text()
    found = re.search(r"^WEFT_SANITIZE:\w+=(\S+)$", cache, re.M)
    return found.group(1) if found else None


def run(folder, command):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, text=True,
                          env=environment(folder), timeout=LONGEST_S, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Tutorial(unittest.TestCase):
    def test_every_block_is_marked(self):
        for page in TUTORIALS:
            for mark, language, text in blocks(page):
                self.assertRegex(mark, r"^(file: \S+|run(; prints: .+)?|not run: .+)$", text)
                if language == "sh":
                    self.assertNotRegex(mark, "^file", text)

    def test_the_tutorials_work(self):
        for page, least in TUTORIALS.items():
            if "python" in page and sanitizer():
                print(f"not followed: {page}: python3 does not load a sanitized library")
                continue
            with self.subTest(page=page), \
                    tempfile.TemporaryDirectory(prefix="weft-tutorial-") as folder:
                (pathlib.Path(folder) / "build").mkdir()
                (pathlib.Path(folder) / "build/release").symlink_to(BUILD)
                self.assertGreaterEqual(self.follow(page, folder), least)

    def follow(self, page, folder):
        """How many commands the tutorial has; each is run."""
        commands = 0
        for mark, _, text in blocks(page):
            kind, _, words = mark.partition(": ")
            if kind == "file":
                with (pathlib.Path(folder) / words).open("a") as file:
                    file.write(text)
            elif kind.startswith("run"):
                done = run(folder, text)
                self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}")
                self.assertRegex(done.stdout, words or ".*", text)
                commands += 1
        return commands


if __name__ == "__main__":
    unittest.main()
