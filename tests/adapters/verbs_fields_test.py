#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each field of the structures of verbs against the public API: verbs_fields.txt.

Fails if a structure of the table has a field in this machine's <infiniband/verbs.h> that the table
lacks, if the table has one that the header lacks, or if the public API has no such member.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("verbs_fields.txt")
HEADER = pathlib.Path("/usr/include/infiniband/verbs.h")
ROW = re.compile(r"^(ibv_\w+)\.([\w.]+)(?: \(rdma-core (\d+)\))? ([=-]) (\S.*)$")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def block(text, at):
    """What stands between the brace that opens at or after `at` and its partner."""
    first = at = text.index("{", at) + 1
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[first:at - 1], at


def fields(body, prefix=""):
    """Yields the names of the fields of a structure; those of a nested one as OUTER.INNER."""
    at = 0
    while at < len(body):
        end = body.find(";", at)
        if end < 0:
            return
        nested = re.compile(r"\s*(?:struct|union)\s*\{").match(body, at)
        if nested:
            inner, after = block(body, at)
            end = body.index(";", after)
            name = body[after:end].strip()
            yield from fields(inner, prefix + name + "." if name else prefix)
        else:
            declared = body[at:end]
            call = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declared)
            name = call.group(1) if call else re.sub(r"\[.*", "", declared).split()[-1].strip("*")
            yield prefix + name
        at = end + 1


def structure(header, name):
    found = re.search(r"struct " + name + r"\s*\{", header)
    return list(fields(block(header, found.start())[0])) if found else None


def members(api, name):
    """Words of the definition of a class or structure of the public API."""
    found = re.search(r"\b(?:class|struct) " + name + r" (?:final )?\{", api)
    return set(re.findall(r"\w+", block(api, found.start())[0])) if found else None


def rows():
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            yield number, ROW.match(line), line


class VerbsFields(unittest.TestCase):
    def test_rows_are_well_formed_and_unique(self):
        seen = set()
        for number, row, line in rows():
            self.assertTrue(row, f"line {number}: {line}")
            key = row.group(1, 2)
            self.assertNotIn(key, seen, f"line {number}")
            seen.add(key)

    def test_every_field_of_the_header_has_a_row(self):
        if not HEADER.exists():
            print(f"SKIPPED: verbs_fields_test: no {HEADER}")
            self.skipTest("no header")
        header = COMMENT.sub("", HEADER.read_text())
        table = {}
        for _, row, _ in rows():
            table.setdefault(row.group(1), {})[row.group(2)] = row.group(3)
        self.assertGreater(len(table), 25)
        for name, known in table.items():
            there = structure(header, name)
            self.assertIsNotNone(there, f"{HEADER} has no struct {name}")
            for field in there:
                self.assertIn(field, known, f"{name}.{field} is in {HEADER}: add a row to "
                                            f"{TABLE.name}")
            for field, since in known.items():
                if since is None:
                    self.assertIn(field, there, f"{TABLE.name}: {name} has no {field}")

    def test_the_public_api_has_the_members(self):
        api = "\n".join(COMMENT.sub("", path.read_text())
                        for path in sorted((ROOT / "include" / "weft").glob("*.hpp")))
        for number, row, _ in rows():
            if row.group(4) == "-":
                continue
            for target in row.group(5).split(", "):
                owner, _, member = target.partition("::")
                there = members(api, owner)
                self.assertIsNotNone(there, f"line {number}: no class or struct {owner}")
                self.assertIn(member, there, f"line {number}: {owner} has no {member}")

    def test_a_field_that_the_table_lacks_is_found(self):
        header = ("struct ibv_x { int a; union { struct { __be32 b[2]; } one; void (*call)(int); };"
                  " struct ibv_y *c, };").replace(", }", "; }")
        self.assertEqual(structure(header, "ibv_x"), ["a", "one.b", "call", "c"])
        self.assertIsNone(structure(header, "ibv_none"))


if __name__ == "__main__":
    unittest.main()
