#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails when ctest skipped a test that tests/permitted_skips.txt does not permit, and prints how
many packets the swarm sent.

A skip is how a suite goes quiet: each one is listed by name, with its reason. Usage:
skips.py JUNIT_XML [PERMITTED_LIST], where JUNIT_XML is what `ctest --output-junit` wrote.
"""
import fnmatch
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

PERMITTED = pathlib.Path(__file__).resolve().parents[1] / "permitted_skips.txt"


def permitted_patterns(path):
    for line in path.read_text().splitlines():
        condition, name = re.match(r"(@user )?(.*)", line.split(" #")[0].strip()).groups()
        if name and not name.startswith("#") and not (condition and os.geteuid() == 0):
            yield name.replace("[", "[[]")  # names hold brackets: only * is special


def skipped(path):
    """(name, reason) of each test that ctest counts as not run, or of the parts of it that say so
    themselves: "SKIPPED: NAME:PART: reason"."""
    for case in xml.parse(path).iter("testcase"):
        if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            name, output = case.get("name"), case.findtext("system-out") or ""
            for reason in dict.fromkeys(re.findall(r"SKIPPED: (.*)", output)) or ["did not run"]:
                part = re.match(rf"({re.escape(name)}:[\w.]+): (.*)", reason)
                yield part.groups() if part else (name, reason)


def swarm_packets(path):
    """The packets of all parts of the swarm, as they say themselves."""
    return sum(int(count) for case in xml.parse(path).iter("testcase")
               for count in re.findall(r"^(\d+) packets, seeds ", case.findtext("system-out") or "",
                                       re.M))


def main():
    permitted = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else PERMITTED
    patterns = list(permitted_patterns(permitted))
    new = 0
    for name, reason in skipped(sys.argv[1]):
        known = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        print(f"skipped: {name} ({reason}){'' if known else ': NOT PERMITTED'}")
        new += not known
    packets = swarm_packets(sys.argv[1])
    if packets:
        print(f"swarm: {packets} packets under faults")
    if new:
        print(f"{new} tests were skipped that tests/permitted_skips.txt does not list")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
