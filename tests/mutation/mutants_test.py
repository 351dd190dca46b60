#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mutants.py, tested: each operator finds its place in a small file, what is not an expression at
run time has no mutant, and the file with all of them compiles and does what was chosen. Of
mutate.py: which lines of which rooms differ from a commit."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutants  # noqa: E402
import mutate  # noqa: E402

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
  if (a < b &&  // both
      kind == Kind::two) sum = sum * 3;
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
            ("condition", "a < b &&  // both\n      kind == Kind::two",
             "a < b || kind == Kind::two"),
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
        self.assertEqual(text.count(b"\n"), SOURCE.count("\n"))
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


class Changed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name).resolve()
        self.addCleanup(setattr, mutate, "ROOT", mutate.ROOT)
        mutate.ROOT = root
        self.git("init", "--quiet")
        self.write("lib/roce/post.cpp", "one\ntwo\nthree\n")
        self.write("lib/roce/cm/agent.hpp", "one\n")
        self.write("docs/page.cpp", "one\n")
        self.commit("2026-01-01T00:00:00Z")

    def git(self, *words, **variables):
        subprocess.run(["git", "-C", mutate.ROOT, "-c", "user.name=a", "-c", "user.email=a@b.c",
                        *words], check=True, env={**os.environ, **variables})

    def write(self, name, text):
        path = mutate.ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self, date):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a", GIT_COMMITTER_DATE=date)

    def test_lines_that_differ_belong_to_the_innermost_room(self):
        self.write("lib/roce/post.cpp", "one\n2\nthree\nfour\nfive\n")
        self.write("lib/roce/cm/agent.hpp", "zero\none\n")
        self.write("docs/page.cpp", "two\n")
        self.write("lib/wire/new.hpp", "one\ntwo\n")
        self.commit("2026-01-03T00:00:00Z")
        self.assertEqual(mutate.changed_lines("HEAD~1"),
                         {"roce": {"lib/roce/post.cpp": {2, 4, 5}},
                          "cm": {"lib/roce/cm/agent.hpp": {1}},
                          "wire": {"lib/wire/new.hpp": {1, 2}}})

    def test_rooms_of_many_lines_come_first_more_often(self):
        lines = {"roce": {f"{i}.cpp": set(range(10 * i)) for i in range(8)}, "wire": {"a": {1}},
                 "shm": {"gone": set()}}
        draws = [mutate.draw_rooms(lines, seed) for seed in range(200)]
        self.assertEqual(draws, [mutate.draw_rooms(lines, seed) for seed in range(200)])
        first = [draw[0][0] for draw in draws]
        self.assertGreater(first.count("roce"), 180)
        self.assertIn("wire", [room for draw in draws for room, _ in draw])
        self.assertNotIn("shm", [room for draw in draws for room, _ in draw])
        files = [dict(draw)["roce"] for draw in draws]
        self.assertEqual({len(those) for those in files}, {4})
        self.assertNotIn("0.cpp", [name for those in files for name in those])
        self.assertGreater(sum(those[0] == "7.cpp" for those in files),
                           sum(those[0] == "1.cpp" for those in files))

    def test_a_deletion_leaves_no_line(self):
        self.write("lib/roce/post.cpp", "one\n")
        (mutate.ROOT / "lib/roce/cm/agent.hpp").unlink()
        self.commit("2026-01-03T00:00:00Z")
        self.assertEqual({name: lines for files in mutate.changed_lines("HEAD~1").values()
                          for name, lines in files.items() if lines}, {})

    def test_a_day_before(self):
        first = mutate.git("rev-parse", "HEAD")
        for day in ("02T10", "02T20", "03T08"):
            self.write("lib/roce/post.cpp", day)
            self.commit(f"2026-01-{day}:00:00Z")
        self.assertEqual(mutate.day_before(), first)
        self.write("lib/roce/post.cpp", "later")
        self.commit("2026-01-03T21:00:00Z")
        self.assertEqual(mutate.day_before(), mutate.git("rev-parse", "HEAD~2"))

    def test_a_clone_without_an_older_commit_has_every_line(self):
        self.assertEqual(mutate.changed_lines(mutate.day_before()),
                         {"roce": {"lib/roce/post.cpp": {1, 2, 3}},
                          "cm": {"lib/roce/cm/agent.hpp": {1}}})


if __name__ == "__main__":
    if shutil.which("clang++") is None:
        print("SKIPPED: mutation/mutants_test: no clang++")
    else:
        unittest.main()
