#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: long
"""Breaks of state, planted one at a time: each must stop the swarm at an assertion, not at a wrong
byte. An assertion that none of them reaches may be one that cannot fail.

Copies the tree to build/breaks, builds the swarm there in Debug, and for each row of breaks.txt
changes the text, builds, runs the swarm over a few seeds, and restores the text.
Usage: planted_breaks_test.py [PATTERN], only the rows whose title contains PATTERN.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/breaks"
SEEDS = {"roce": 12, "srd": 3}


def rows():
    """(title, swarm, first seed, file, old text, new text) of each row."""
    text = (pathlib.Path(__file__).with_name("breaks.txt")).read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    for block in filter(None, (b.strip() for b in text.split("\n\n"))):
        lines = block.split("\n")
        title, which, name, *first = (part.strip() for part in lines[0].split("|"))
        old = "\n".join(line[2:] for line in lines[1:] if line.startswith("- "))
        new = "\n".join(line[2:] for line in lines[1:] if line.startswith("+ "))
        yield title, which, first[0] if first else "1", name, old, new


def run(*command, limit_s=600):
    return subprocess.run(command, capture_output=True, text=True, errors="replace",
                          timeout=limit_s, check=False)


def copy_tree():
    """Files that differ only, so that a second run builds little."""
    names = run("git", "-C", str(ROOT), "ls-files").stdout.split("\n")
    for name in filter(None, names):
        source, target = ROOT / name, COPY / name
        if source.is_file() and not (target.is_file()
                                     and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)


def build():
    result = run("cmake", "--build", str(COPY / "build/debug"), "--target", "sim_swarm",
                 limit_s=1800)
    return "" if result.returncode == 0 else (result.stdout + result.stderr)[-2000:]


def swarm(which, first="1"):
    """What a run of the swarm ended with: an assertion's text, "wrong", "hung" or "held"."""
    command = [str(COPY / "build/debug/bin/sim_swarm"), "--first", first,
               "--seeds", str(SEEDS[which])]
    try:
        result = run(*command, *(["--srd"] if which == "srd" else []), limit_s=180)
    except subprocess.TimeoutExpired:
        return "hung"
    found = re.search(r"internal check failed: .*", result.stdout + result.stderr)
    if found:
        return found.group(0)
    return "held" if result.returncode == 0 else "wrong"


def try_break(title, which, first, name, old, new):
    """The line to print, and whether an assertion stopped the swarm."""
    path = COPY / name
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        return f"{title}: {name} has the text {text.count(old)} times: {old!r}", False
    path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        problem = build()
        outcome = f"does not build: {problem}" if problem else swarm(which, first)
    finally:
        path.write_text(text, encoding="utf-8")
    return f"{title}: {outcome}", outcome.startswith("internal check failed")


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    copy_tree()
    made = run("cmake", "-S", str(COPY), "--preset", "debug", "--log-level=ERROR")
    if made.returncode:
        sys.exit(made.stdout + made.stderr)
    if problem := build():
        sys.exit("the tree does not build: " + problem)
    for which in ("roce", "srd"):
        if swarm(which) != "held":
            sys.exit(f"the swarm of {which} fails without a break")
    stopped = missed = 0
    for row in rows():
        if pattern not in row[0]:
            continue
        line, right = try_break(*row)
        print(line, flush=True)
        stopped, missed = stopped + right, missed + (not right)
    print(f"{stopped} passed, {missed} failed")
    return 1 if missed or not stopped else 0


if __name__ == "__main__":
    sys.exit(main())
