#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The public headers in a user's program: each compiles alone, and none warns under the options
that careful projects compile with, whichever compiler and language; nor does code that sets some
members of an attribute structure by name."""
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "include/weft").glob("*.hpp"))
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Werror")
STRUCT = re.compile(r"(?<!>\n)^struct (?:\[\[nodiscard\]\] )?(\w+) \{\n(.*?)^\};", re.S | re.M)
MEMBER = re.compile(r"^  (?! )[\w:<>\*&, ]+? (\w+)(?:\{\}| = [^;]*|\{[^;]*\})?(?:, [^;]*)?;", re.M)


def includes(headers):
    return "".join(f'#include "weft/{header.name}"\n' for header in headers)


def initialisers():
    """Code that sets the first member of each structure of plain members by its name."""
    code = []
    for header in HEADERS:
        for name, body in STRUCT.findall(header.read_text()):
            plain = re.sub(r"//[^\n]*", "", body)
            member = MEMBER.search(plain)
            if member and f"  {name}(" not in plain and "operator" not in plain:
                code.append(f"  (void){name}{{.{member[1]} = {{}}}};")
    return code


def compiled(compiler, language, code, *options):
    done = subprocess.run([compiler, f"-std={language}", *WARNINGS, *options, "-fsyntax-only",
                           f"-I{ROOT}/include", "-x", "c++", "-"], input=code, text=True,
                          capture_output=True, timeout=300)
    return done.stderr if done.returncode else ""


class Headers(unittest.TestCase):
    def test_each_alone(self):
        for header in HEADERS:
            with self.subTest(header=header.name):
                self.assertEqual(compiled("g++", "c++20", includes([header])), "")

    def test_all_without_warnings(self):
        sets = initialisers()
        self.assertGreater(len(sets), 20)
        lines = ["void set();", "void set() {", "  using namespace weft;",
                 "  using namespace weft::congestion;",
                 "  using namespace weft::simulation;", *sets, "}\n"]
        code = includes(HEADERS) + "\n".join(lines)
        for compiler in ("g++", "clang++"):
            if not shutil.which(compiler):
                print(f"not compiled: there is no {compiler}")
                continue
            for language in ("c++20", "c++2b"):
                with self.subTest(compiler=compiler, language=language):
                    self.assertEqual(compiled(compiler, language, code), "")

    def test_a_warning_is_seen(self):
        code = includes(HEADERS) + "int narrow(long wide) { return wide; }\n"
        self.assertIn("conversion", compiled("g++", "c++20", code))


if __name__ == "__main__":
    unittest.main()
