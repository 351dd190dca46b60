#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The documents against the tree: C++ in them compiles, links and named paths exist, and no table
cell is too long to read.

A block of C++ follows a line `<!-- compile: statements [setup] [remote] -->`: it is compiled as the
body of a function, with the objects of the tutorial (setup), and a region and the memory of a peer
(remote), in scope. A block after `<!-- file: NAME -->` is a part of a file, which tutorial_test.py
compiles.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/docs"))
import performance  # noqa: E402
import rooms  # noqa: E402

LONGEST_CELL = 300
README_LINES = 150
SETUP = """weft::Device& device, weft::CompletionQueue& cq, weft::ProtectionDomain& pd,
    weft::QueuePair& qp"""
SCOPES = {"setup": SETUP,
          "remote": "weft::MemoryRegion& region, uint64_t address, weft::RKey rkey"}
INCLUDES = "#include <cstdio>\n#include <cstring>\n#include <string>\n#include <weft/weft.hpp>\n"
BLOCK = re.compile(r"(<!-- (?:compile: statements([a-z ]*)|file: \S+ )-->\n)?```cpp\n(.*?)```",
                   re.S)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"(?<![\w/.-])((?:lib|tests|providers|tools|bench|include|examples|scenarios"
                  r"|cmake|docs)/[\w./-]*\w)")
PLACEHOLDER = re.compile(r"NAME|REPOSITORY|\.\.\.|lib/python")


TREES = ("docs", "lib", "providers", "tests", "bench", "tools", "scenarios", "examples")


def pages():
    """All documents but the archive; those beside the code, too."""
    found = sorted(ROOT.glob("*.md"))
    for tree in TREES:
        found += sorted((ROOT / tree).rglob("*.md"))
    old = ROOT / "docs/history"
    return [page for page in found if page.parent != old or page.name == "README.md"]


def untested(cell):
    """What is wrong with the tests that a claim names: each is a file of tests/ and the beginnings
    of names of its cases in quotes; or `none:` and the reason."""
    if re.match(r"none: \w", cell):
        return ""
    found = re.findall(r'(tests/[\w./-]+) ((?:"[^"]+"(?:, )?)+)', cell)
    if not found:
        return f"names no case of a test: {cell}"
    for name, cases in found:
        if not (ROOT / name).is_file():
            return f"{name} is no file"
        # The literals of a long name stand on several lines.
        text = re.sub(r'"\s*\n\s*"', "", (ROOT / name).read_text())
        for case in re.findall(r'"([^"]+)"', cases):
            if case not in text:
                return f"{name} has no case {case!r}"
    return ""


def function_of(number, parameters, body, place="block"):
    """The body of a block as a function; its #include lines go before it."""
    includes = [line for line in body.splitlines() if line.startswith("#include")]
    rest = [line for line in body.splitlines() if not line.startswith("#include")]
    return "\n".join([*includes, f'void snippet_{number}({parameters}) {{', f'#line 1 "{place}"',
                      *rest, "}", ""])


def compile_text(text):
    # What the scope offers and a block does not use is no fault of the block.
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers",
             "-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-shadow", "-Werror"]
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(INCLUDES + text)
        source.flush()
        return subprocess.run([shutil.which("c++") or "g++", *flags, "-fsyntax-only",
                               "-I", str(ROOT / "include"), source.name],
                              capture_output=True, text=True)


class Documents(unittest.TestCase):
    def test_cpp_compiles(self):
        functions = []
        for page in pages():
            for mark, scopes, body in BLOCK.findall(page.read_text()):
                place = f"{page.relative_to(ROOT)}: {body.splitlines()[0]}"
                self.assertTrue(mark, f"{place}: needs <!-- compile: statements -->")
                if mark.startswith("<!-- file:"):
                    continue
                parameters = ", ".join(SCOPES[scope] for scope in scopes.split())
                functions.append(function_of(len(functions), parameters, body,
                                             place.replace('"', "'")))
        self.assertGreater(len(functions), 5)
        result = compile_text("".join(functions))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_example_of_the_umbrella_header_compiles(self):
        comment = (ROOT / "include/weft/weft.hpp").read_text().partition("#pragma once")[0]
        body = "\n".join(line[5:] for line in comment.splitlines() if line.startswith("//   "))
        self.assertIn("post_send", body)
        result = compile_text(function_of(0, "", body))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_block_that_does_not_compile_is_found(self):
        result = compile_text(function_of(0, "", "weft::Device d = unpack();"))
        self.assertNotEqual(result.returncode, 0)

    def test_links_and_paths_exist(self):
        for page in pages():
            for number, line in enumerate(page.read_text().splitlines(), 1):
                with self.subTest(page=page.name, line=number):
                    for target in LINK.findall(line):
                        if "://" not in target:
                            self.assertTrue((page.parent / target).exists(), target)
                    for path in PATH.findall(line):
                        if not PLACEHOLDER.search(path):
                            there = [*ROOT.glob(path), *ROOT.glob(path + ".*"),
                                     *(ROOT.glob(path + "*") if path.endswith("_") else ())]
                            self.assertTrue(there, path)

    def test_each_claim_of_the_security_page_names_its_tests(self):
        page = ROOT / "docs/security.md"
        rows = [line for line in page.read_text().splitlines()
                if line.startswith("| ") and not line.startswith("| ---")]
        claims = [row for row in rows if not re.search(r"\| tests \|$", row)]
        self.assertGreater(len(claims), 20)
        self.assertEqual(len(rows) - len(claims), 4)  # the heads of the tables
        for claim in claims:
            with self.subTest(claim=claim[:60]):
                self.assertEqual(untested(claim.split(" | ")[-1].rstrip("| ")), "")

    def test_a_claim_without_a_test_is_found(self):
        for cell in ("", "-", "tests/docs", "tests/docs/docs_test.py", "by hand",
                     'tests/docs/no_test.py "a"',
                     'tests/docs/docs_test.py "case %d"' % 1):
            self.assertNotEqual(untested(cell), "", cell)
        self.assertEqual(untested("none: nothing protects against it"), "")
        self.assertEqual(untested('tests/docs/docs_test.py "test_cpp_compiles", "pages()"'), "")

    def test_cells_can_be_read(self):
        for page in pages():
            for number, line in enumerate(page.read_text().splitlines(), 1):
                if line.startswith("|"):
                    longest = max(len(cell) for cell in line.split("|"))
                    self.assertLessEqual(longest, LONGEST_CELL, f"{page.name}:{number}")

    def test_figures_are_those_of_the_runs(self):
        for path, text in performance.rendered().items():
            self.assertEqual(path.read_text(), text, f"{path.name}: run tools/docs/performance.py")

    def test_the_picture_of_rooms_is_as_the_sources(self):
        self.assertEqual(rooms.PICTURE.read_text(), rooms.svg(), "run tools/docs/rooms.py")

    def test_a_circle_of_rooms_is_found(self):
        with self.assertRaisesRegex(ValueError, "a -> b -> a"):
            rooms.reduced({"a": {"b"}, "b": {"a"}})

    def test_the_cookbook_has_all_keys_of_the_simulator(self):
        source = (ROOT / "lib/sim/scheme/parameters.cpp").read_text()
        keys = re.findall(r'^    \{"([a-z]+\.[a-z_0-9]+)", "', source, re.M)
        self.assertGreater(len(keys), 30)
        cookbook = (ROOT / "docs/simulator.md").read_text()
        self.assertEqual(re.findall(r"^\| `([a-z]+\.[a-z_0-9]+)` \|", cookbook, re.M), keys)

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), README_LINES)


if __name__ == "__main__":
    unittest.main()
