#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which rules of RoCEv2 conformance (C-...) and which attacks (A..) are cited at code and at tests.

Code cites as `//= roce:C-DUP-25` or `//= threat:A07` (ranges: `roce:C-STATE-55..57`), and further
ids on that line count too; a test names the id in its name, tag or a comment. What we do otherwise
stands in a table, lib/roce/DEVIATIONS.md. Fails when an id is unknown, when a rule is neither
covered nor in the table, or when one of required.txt is no longer covered.
Usage: conformance.py [--json] [ROOT]
"""
import argparse
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
CODE_TREES = ("include", "lib", "providers")
SUFFIXES = (".cpp", ".hpp", ".py", ".script", ".txt")
ID = re.compile(r"\b(C-[A-Z]+-)(\d+)(?:\.\.(\d+))?|\b(A)(\d\d)\b(?:\.\.A?(\d\d)\b)?")
DEVIATIONS = "lib/roce/DEVIATIONS.md"
ROW = re.compile(r"^\| *(C-[A-Z]+-\d+) *\|([^|]+)\|([^|]+)\|$")
IS_RANGE = re.compile(r"threat:A\d\d\.\.")
CITES = re.compile(r"\b(?:roce:C-|threat:A\d)")
STATUS = {(True, True): "covered", (True, False): "code only", (False, True): "test only",
          (False, False): "not yet"}


def read_ids(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def cited(line):
    """The ids that a line names, ranges expanded."""
    for match in ID.finditer(line):
        prefix, first, last, attack, number, end = match.groups()
        if prefix:
            for n in range(int(first), int(last or first) + 1):
                yield f"{prefix}{n}"
        elif attack:
            for n in range(int(number), int(end or number) + 1):
                yield f"A{n:02d}"


def places(root, folders, known, wants_mark):
    """{id: [file:line]} of the citations below the folders, and the unknown ones."""
    found, unknown = {}, []
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or HERE in path.parents or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                marked = CITES.search(line)
                for rule in cited(line):
                    is_range = IS_RANGE.search(line)
                    if rule[0] == "A" and f"threat:{rule}" not in line and not is_range:
                        continue  # A14 is an annex of IBTA too
                    if rule in known:
                        if marked or (not wants_mark and rule.startswith("C-")):
                            found.setdefault(rule, []).append(f"{name}:{number}")
                    elif marked:
                        unknown.append(f"{name}:{number}: {rule} is in no list")
    return found, unknown


def deviations(root, known):
    """The rules of the table, and what is wrong with its rows."""
    path = root / DEVIATIONS
    found, wrong = set(), []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
        if not line.startswith("| C-"):
            continue
        row = ROW.match(line)
        if row and row.group(1) in known and row.group(2).strip() and row.group(3).strip():
            found.add(row.group(1))
        else:
            wrong.append(f"{DEVIATIONS}:{number}: wants | a known rule | what we do | why |")
    return found, wrong


def table(rules, code, tests, deviating):
    return [{"id": rule, "status": ("deviates" if rule in deviating else
                                    STATUS[rule in code, rule in tests]),
             "code": code.get(rule, []), "tests": tests.get(rule, [])} for rule in rules]


def summary(rows, kind, word):
    part = [row for row in rows if row["id"].startswith(kind)]
    count = {status: sum(row["status"] == status for row in part)
             for status in (*STATUS.values(), "deviates")}
    done = count.pop("covered")
    rest = ", ".join(f"{number} {status}" for status, number in count.items() if number)
    return f"{done} / {len(part)} {word} covered" + (f" ({rest})" if rest else "")


def show(rows):
    for row in rows:
        where = [row["code"][:1], row["tests"][:1]]
        text = "  ".join(place[0] for place in where if place)
        more = len(row["code"]) + len(row["tests"]) - sum(len(place) for place in where)
        print(f"{row['id']:<13} {row['status']:<10} {text}{f'  +{more}' if more else ''}".rstrip())


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("root", nargs="?", default=str(HERE.parents[1]))
    options = arguments.parse_args()
    root = pathlib.Path(options.root).resolve()

    rules = read_ids(HERE / "rules.txt")
    known = set(rules)
    code, unknown_code = places(root, CODE_TREES, known, wants_mark=True)
    tests, unknown_tests = places(root, ("tests",), known, wants_mark=False)
    deviating, bad_rows = deviations(root, known)
    rows = table(rules, code, tests, deviating)
    lost = [f"{rule} is required and {STATUS[rule in code, rule in tests]}"
            for rule in read_ids(HERE / "required.txt") if rule not in code or rule not in tests]
    open_rules = [f"{row['id']} is {row['status']}, and not in {DEVIATIONS}" for row in rows
                  if row["id"].startswith("C-") and row["status"] not in ("covered", "deviates")]
    problems = unknown_code + unknown_tests + bad_rows + open_rules + lost

    if options.json:
        print(json.dumps({"rules": rows, "problems": problems}, indent=1))
    else:
        show(rows)
        for problem in problems:
            print(f"error: {problem}")
        print(summary(rows, "C-", "rules"))
        print(summary(rows, "A", "attacks"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
