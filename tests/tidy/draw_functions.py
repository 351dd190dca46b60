#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws functions for a cold reading: a reader who does not know the code says of each, from its
text alone, what it does; a function that is misread needs other names.

Usage: draw_functions.py [COUNT] [COMMIT]
Draws COUNT (default 40) functions of 8 lines or more from lib and providers, with the commit
(default: HEAD) as seed, so that the draw can be repeated and not be chosen.
"""
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tidy  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHORTEST = 8


def candidates():
    """(path, first line, last line) of each function that is long enough, in a fixed order."""
    for tree in ("lib", "providers"):
        for path in sorted((ROOT / tree).rglob("*.[ch]pp")):
            for first, last in tidy.functions(path.read_text(encoding="utf-8")):
                if last - first + 1 >= SHORTEST:
                    yield path, first, last


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    commit = sys.argv[2] if len(sys.argv) > 2 else "HEAD"
    seed = subprocess.run(["git", "rev-parse", commit], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.strip()
    drawn = random.Random(seed).sample(list(candidates()), count)
    print(f"{count} functions, drawn with seed {seed}")
    for number, (path, first, last) in enumerate(drawn, 1):
        lines = path.read_text(encoding="utf-8").split("\n")[first - 1:last]
        print(f"\n#### {number}. {path.relative_to(ROOT)}:{first}")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
