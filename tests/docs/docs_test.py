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
PLACEHOLDER = re.compile(r"NAME|REPOSITORY|\.\.\.")


def pages():
    names = ["README.md", "CHANGELOG.md", "SECURITY.md"]
    found = [ROOT / name for name in names] + sorted((ROOT / "docs").rglob("*.md"))
    old = ROOT / "docs/history"
    return [page for page in found if page.parent != old or page.name == "README.md"]


def compile_block(parameters, body):
    includes = "\n".join(line for line in body.splitlines() if line.startswith("#include"))
    rest = "\n".join(line for line in body.splitlines() if not line.startswith("#include"))
    text = f"{INCLUDES}{includes}\nvoid snippet({parameters}) {{\n{rest}\n}}\n"
    # What the scope offers and a block does not use is no fault of the block.
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers",
             "-Wno-unused-parameter", "-Wno-unused-variable", "-Wno-shadow", "-Werror"]
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(text)
        source.flush()
        return subprocess.run([shutil.which("c++") or "g++", *flags, "-fsyntax-only",
                               "-I", str(ROOT / "include"), source.name],
                              capture_output=True, text=True)


class Documents(unittest.TestCase):
    def test_cpp_compiles(self):
        count = 0
        for page in pages():
            for mark, scopes, body in BLOCK.findall(page.read_text()):
                with self.subTest(page=page.name, block=body.splitlines()[0]):
                    self.assertTrue(mark, "a block of C++ needs <!-- compile: statements -->")
                    if mark.startswith("<!-- file:"):
                        continue
                    parameters = ", ".join(SCOPES[scope] for scope in scopes.split())
                    result = compile_block(parameters, body)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    count += 1
        self.assertGreater(count, 3)

    def test_a_block_that_does_not_compile_is_found(self):
        self.assertNotEqual(compile_block("", "weft::Device d = unpack();\n").returncode, 0)

    def test_links_and_paths_exist(self):
        for page in pages():
            for number, line in enumerate(page.read_text().splitlines(), 1):
                with self.subTest(page=page.name, line=number):
                    for target in LINK.findall(line):
                        if "://" not in target:
                            self.assertTrue((page.parent / target).exists(), target)
                    for path in PATH.findall(line):
                        if not PLACEHOLDER.search(path):
                            self.assertTrue((ROOT / path).exists() or list(ROOT.glob(path + ".*")),
                                            path)

    def test_cells_can_be_read(self):
        for page in pages():
            for number, line in enumerate(page.read_text().splitlines(), 1):
                if line.startswith("|"):
                    longest = max(len(cell) for cell in line.split("|"))
                    self.assertLessEqual(longest, LONGEST_CELL, f"{page.name}:{number}")

    def test_figures_are_those_of_the_runs(self):
        for path, text in performance.rendered().items():
            self.assertEqual(path.read_text(), text, f"{path.name}: run tools/docs/performance.py")

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), README_LINES)


if __name__ == "__main__":
    unittest.main()
