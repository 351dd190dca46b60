#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/wire-habits.md: each cell says in which source it can be read or is `unknown`, each source
is cited, and the unknown cells are counted. That the first table is the one in the code is for
tests/roce/roce_profiles_test.cpp."""
import pathlib
import re
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/wire-habits.md"
COLUMNS = ["habit", "connectx", "bnxt", "e810", "rxe", "weft"]
MARK = re.compile(r"\[([a-z]\d+)\]$")


def tables(text):
    """(habits, sources): the rows of the tables, as lists of cells."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return ([row for row in rows if len(row) == len(COLUMNS)],
            [row for row in rows if len(row) == 2])


class WireHabits(unittest.TestCase):
    def test_every_cell_has_a_source_or_is_unknown(self):
        text = PAGE.read_text(encoding="utf-8")
        habits, (_, *sources) = tables(text)
        self.assertEqual(habits.count(COLUMNS), 2)
        habits = [row for row in habits if row != COLUMNS]
        self.assertGreater(len(habits), 20)
        known = {mark for mark, _ in sources}
        self.assertEqual(len(known), len(sources), "a mark has two sources")
        cited, unknown, cells = set(), 0, 0
        for row in habits:
            for device, cell in zip(COLUMNS[1:], row[1:]):
                cells += 1
                if cell == "unknown":
                    unknown += 1
                    self.assertNotEqual(device, "weft", row[0])
                    continue
                found = MARK.search(cell)
                self.assertTrue(found, f"{row[0]}, {device}: no source: {cell}")
                cited.add(found[1])
        self.assertEqual(cited, known)
        self.assertIn(f"{unknown} of {cells} cells are `unknown`", text)


if __name__ == "__main__":
    unittest.main()
