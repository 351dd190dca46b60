#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mutants.py, tested: each operator finds its place in a small file, what is not an expression at
run time has no mutant, and the file with all of them compiles and does what was chosen."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutants  # noqa: E402

HEADER = pathlib.Path(__file__).resolve().with_name("mutant.hpp")
SOURCE = """#include <cstdlib>
namespace room {
enum class Kind { one, two };
constexpr int kTable[] = {1 + 1, 2};
static_assert(sizeof(kTable) == 2 * sizeof(int));
struct Part { int size = 4; };
int difference(int a, int b) { return a - b; }
int work(int a, int b, Kind kind) {
  int sum = 0;
  sum += difference(a, b);
  if (a < b && kind == Kind::two) sum = sum * 3;
  switch (a) {
    case 1:
      return -1;
    default:
      break;
  }
  return sum;
}
}  // namespace room
int main(int, char** v) {
  return room::work(std::atoi(v[1]), std::atoi(v[2]), room::Kind::two) + 100;
}
"""


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "include").mkdir()
        self.source = self.root / "room.cpp"
        self.source.write_text(SOURCE)
        found = mutants.Finder(self.root, {"room.cpp"}).run(self.source, ["room"])
        self.found = dict(enumerate(sorted(found, key=lambda m: (m.begin, m.end, m.operator)), 1))

    def texts(self):
        """(operator, original, mutated) of each."""
        cut = SOURCE.encode()
        return {(m.operator, cut[m.begin:m.end].decode(), "".join(
            p if isinstance(p, str) else cut[p[0]:p[1]].decode() for p in m.pieces))
            for m in self.found.values()}

    def test_each_operator_finds_its_place(self):
        self.assertLessEqual({
            ("bound", "a < b", "a <= b"),
            ("condition", "kind == Kind::two", "kind != Kind::two"),
            ("condition", "a < b && kind == Kind::two", "a < b || kind == Kind::two"),
            ("arithmetic", "a - b", "a + b"),
            ("arithmetic", "sum * 3", "sum / 3"),
            ("by_one", "3", "3 + 1"),
            ("order", "difference(a, b)", "difference(b, a)"),
            ("dropped", "sum += difference(a, b)", ""),
            ("enumerator", "Kind::two", "Kind::one")}, self.texts())

    def test_constants_have_none(self):
        for _, original, _ in self.texts():
            self.assertNotIn(original, ("2", "4", "1 + 1", "2 * sizeof(int)"))
        places = [m.begin for m in self.found.values()]
        self.assertNotIn(SOURCE.index("1:\n"), places)  # of `case 1:`

    def test_one_build_holds_all(self):
        text, held = mutants.render(SOURCE.encode(), self.found)
        self.assertEqual(held, set(self.found))
        mutated = self.root / "mutated.cpp"
        mutated.write_bytes(f'#include "{HEADER}"\n'.encode() + text)
        program = self.root / "program"
        subprocess.run(["clang++", "-std=c++20", "-w", "-o", program, mutated], check=True)

        def result(number, a=5, b=7):
            return subprocess.run([program, str(a), str(b)], check=False,
                                  env={**os.environ, "WEFT_MUTANT": str(number)}).returncode
        self.assertEqual(result(0), 100 - 2 * 3)
        named = {m.operator + SOURCE[m.begin:m.end]: n for n, m in self.found.items()}
        self.assertEqual(result(named["dropped" + "sum += difference(a, b)"]), 100)
        self.assertEqual(result(named["arithmetica - b"]), 100 + 12 * 3)
        self.assertEqual(result(named["bounda < b"], 5, 5), 100)
        for number in self.found:
            result(number)  # ends


if __name__ == "__main__":
    if shutil.which("clang++") is None:
        print("SKIPPED: mutation/mutants_test: no clang++")
    else:
        unittest.main()
