#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Repeats the failed tests of a ctest run that are labelled `realtime`, up to twice each, and
names each one. Fails if a test failed that may not be repeated, if one fails three times, or if
more than one in a hundred of the real-time tests had to be repeated: a test that fails now and then
is a bug of the test or of what it tests, and not a busy machine.

Usage: repeats.py BUILD_DIRECTORY JUNIT_XML REPORT, where JUNIT_XML is what `ctest --output-junit`
wrote, and REPORT gets a line for each repeated test (./dev test and .ci/run print it last).
"""
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

ATTEMPTS = 3
LABEL = "realtime"


def realtime_tests(build):
    """The names of the tests that may be repeated."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout
    names = set()
    for test in json.loads(shown)["tests"]:
        labels = next((p["value"] for p in test.get("properties", ()) if p["name"] == "LABELS"), ())
        if any(LABEL in label.split("-") for label in labels):
            names.add(test["name"])
    return names


def results(junit):
    """(names of the tests that ran, names of those that failed), in their order."""
    ran, failed = [], []
    for case in xml.parse(junit).iter("testcase"):
        if case.get("status") in ("run", "fail"):
            ran.append(case.get("name"))
            if case.get("status") == "fail":
                failed.append(case.get("name"))
    return ran, failed


def passes(build, name):
    print(f"repeats: {name}", flush=True)
    pattern = "^" + re.sub(r"([][(){}.*+?^$|\\])", r"\\\1", name) + "$"
    return subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error",
                           "-R", pattern], check=False).returncode == 0


def repeat(build, names):
    """Of each name: after how many attempts it passed, 0 if it did not."""
    return {name: next((attempt for attempt in range(2, ATTEMPTS + 1) if passes(build, name)), 0)
            for name in names}


def main():
    build, junit, report = sys.argv[1:]
    pathlib.Path(report).write_text("", encoding="utf-8")
    ran, failed = results(junit)
    realtime = realtime_tests(build)
    final = [name for name in failed if name not in realtime]
    repeated = [name for name in failed if name in realtime]
    count = sum(name in realtime for name in ran)
    allowed = max(1, count // 100)
    said = [f"failed, and is not repeated (no label {LABEL}): {name}" for name in final]
    if len(repeated) > allowed:  # broken, not busy: not worth the time
        said += [f"failed: {name}" for name in repeated]
    else:
        for name, attempt in repeat(build, repeated).items():
            said.append(f"passed at attempt {attempt}: {name}" if attempt
                        else f"failed {ATTEMPTS} times: {name}")
            final += [] if attempt else [name]
    said.append(f"{len(repeated)} of {count} real-time tests failed at the first attempt, "
                f"{allowed} may")
    pathlib.Path(report).write_text("".join(f"{line}\n" for line in said), encoding="utf-8")
    return 1 if final or len(repeated) > allowed or not failed else 0


if __name__ == "__main__":
    sys.exit(main())
