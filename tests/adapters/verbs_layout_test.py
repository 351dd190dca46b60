#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The layout of the structures of verbs: verbs_layout.txt against this machine's headers.

The table holds what programs of rdma-core 44, 56 and 65 were compiled with. The headers that the
drop-in library is compiled with must agree, so each row becomes a static_assert. Rows that are
newer than the headers are compared where the library has such a structure of its own.
"""
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("verbs_layout.txt")
OLDEST = 44
# Structures of the library that stand for newer ones: (header, type), and which table they have.
OWN = {"ibv_mr_init_attr": ("lib/adapters/verbs/abi/newer.hpp", "weft::drop_in::MrInitAttr")}


def table(text):
    """{structure: ({version: size}, [(field, offset, version)])}."""
    structures = {}
    for line in text.splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if not line.startswith(" "):
            sizes = dict(map(int, word.split(":")) for word in words[1:])
            rows = structures.setdefault(words[0], (sizes, []))[1]
        else:
            rows.append((words[0], int(words[1]), int(words[2]) if len(words) > 2 else OLDEST))
    return structures


def assertions(name, sizes, rows):
    """One for the size, and one for each field that the headers have."""
    origin = f"offsetof({name}, context)" if name == "verbs_context" else "0"
    equal = " || ".join(f"sizeof({name}) == {size}" for size in sizes.values())
    yield f'static_assert({equal}, "{name}");'
    for field, offset, version in rows:
        same = f"long(offsetof(T, {field})) - long({origin}) == {offset}"
        said = f"{name}.{field} {offset}"
        if version == OLDEST:
            yield f'static_assert({same.replace("T,", name + ",")}, "{said}");'
        else:
            there = f"requires(T t) {{ t.{field}; }}"
            yield (f"static_assert([]<class T>(T*) {{ if constexpr ({there}) return {same}; "
                   f'else return true; }}(({name}*)nullptr), "{said}");')


def program(structures):
    """A C++ file that compiles if the headers have this layout, and how many fields it checks."""
    kinds, lines, fields = set(re.findall(r"\b\w+", headers())), [], 0
    for name, (sizes, rows) in structures.items():
        if name in kinds:
            lines += assertions(name, sizes, rows)
            fields += len(rows)
    for name, (header, own) in OWN.items():
        sizes, rows = structures[name]
        lines += [f'#include "{header}"', f"static_assert(sizeof({own}) == {min(sizes.values())});"]
        lines += [f"static_assert(offsetof({own}, {field}) == {offset});"
                  for field, offset, _ in rows]
    return "#include <cstddef>\n#include <infiniband/verbs.h>\n" + "\n".join(lines) + "\n", fields


def headers():
    folder = pathlib.Path(os.environ.get("IBVERBS_INCLUDE", "/usr/include")) / "infiniband"
    return (folder / "verbs.h").read_text() + (folder / "verbs_api.h").read_text()


def compiled(text):
    """What the compiler says of a file; nothing if it is right."""
    said = subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-w", "-Wno-invalid-offsetof",
         f"-I{ROOT}", f"-I{ROOT}/include", "-isystem",
         os.environ.get("IBVERBS_INCLUDE", "/usr/include"), "-x", "c++", "-"],
        input=text, capture_output=True, text=True, timeout=120, check=False)
    return said.stderr if said.returncode else ""


class Layout(unittest.TestCase):
    def test_every_structure(self):
        text, fields = program(table(TABLE.read_text()))
        self.assertGreater(fields, 600)
        self.assertEqual(compiled(text), "")

    def test_a_wrong_row_is_found(self):
        for right, wrong in (("  wr_id 0\n", "  wr_id 4\n"), ("ibv_wc 44:48", "ibv_wc 44:56")):
            changed = TABLE.read_text().replace(right, wrong)
            self.assertNotEqual(changed, TABLE.read_text())
            self.assertIn("static assertion failed", compiled(program(table(changed))[0]))


if __name__ == "__main__":
    if pathlib.Path("/usr/include/infiniband/verbs.h").exists():
        unittest.main()
    else:
        print("SKIPPED: adapters/verbs_layout: not installed: libibverbs-dev")
