#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tidy.py, tested: each rule finds its violation in a bad tree, and a clean tree has none. And
conformance.py: what is neither cited nor a deviation is found."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tidy  # noqa: E402

OPENING = f"// {tidy.SPDX}\n// What this is.\n"


def write_tree(root, files):
    """A tree of {path: text}."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def problems(files):
    """The texts of what tidy says about a tree."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        write_tree(root, files)
        return [f"{n}:{line}: {text}" for n, line, text in tidy.Checker(root).run()]


def conformance(files):
    """The status of each rule in a tree, and the problems, as conformance.py tells them."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(pathlib.Path(folder), files)
        script = pathlib.Path(__file__).resolve().with_name("conformance.py")
        told = json.loads(subprocess.run([sys.executable, str(script), "--json", folder],
                                         capture_output=True, check=False).stdout)
        return {row["id"]: row["status"] for row in told["rules"]}, told["problems"]


class Tidy(unittest.TestCase):
    def expect(self, name, text, *wanted):
        said = problems({name: text})
        self.assertEqual(len(said), len(wanted), said)
        for line, part in zip(said, wanted):
            self.assertIn(part, line)

    def test_a_clean_file_has_no_problem(self):
        self.expect("lib/roce/rx.cpp", OPENING +
                    '#include "lib/roce/rx.hpp"\n#include "lib/wire/parse.hpp"\n'
                    '#include "weft/qp.hpp"\n#include <vector>\n'
                    'int f() { return std::get_if<int>(&x) ? j.get_to(y) : get_nprocs(); }\n')

    def test_first_line_and_opening(self):
        self.expect("lib/base/a.cpp", "int x;\n", "a.cpp:1: the first line is not the SPDX")
        self.expect("lib/base/a.cpp", f"// {tidy.SPDX}\n\nint x;\n", "a.cpp:2: no opening comment")
        self.expect("tests/a_test.py", f"#!/usr/bin/env python3\n# {tidy.SPDX}\nimport os\n",
                    "a_test.py:3: no opening comment")

    def test_sizes(self):
        self.expect("lib/base/a.cpp", OPENING + "int x;\n" * 399, "a.cpp:401: 401 lines")
        self.expect("lib/base/a.cpp", OPENING + "// " + "x" * 98 + "\n", "a.cpp:3: 101 columns")
        self.expect("lib/base/a.cpp", OPENING + "int x; \n", "a.cpp:3: tab or trailing space")

    def test_function_length(self):
        body = "  x = '{'; // }\n" * 69
        self.expect("lib/base/a.cpp", OPENING + "namespace weft {\nint f(int x) {\n" + body +
                    "}\n}\n", "a.cpp:4: function of 71 lines")
        self.expect("lib/base/a.cpp", OPENING + "struct A {\n  A()\n  : x_{1}, y_(2) {\n" + body +
                    "  x = 1'000'000;\n  }\n};\n", "function of 7")
        self.expect("lib/base/a.cpp", OPENING + "int f() {\n" + body[:-16] + "}\n")

    def test_methods_of_a_class(self):
        methods = "".join(f"  int f{i}(int x) const {{ return x; }}\n" for i in range(20)) + \
            "".join(f"  void g{i}();\n" for i in range(19)) + "  friend int h(const A&);\n"
        no_methods = ("  A(const A&) = delete;\n  using F = int (*)(int);\n  F call = nullptr;\n"
                      "  struct B {\n    int b();\n  };\n  enum class C { x, y };\n")
        self.expect("lib/base/a.cpp", OPENING + "class A {\n" + methods + no_methods + "};\n")
        self.expect("lib/base/a.cpp", OPENING + "class A {\n" + methods + no_methods +
                    "  std::vector<int> more(int) const;\n};\n",
                    "a.cpp:3: A declares 41 methods, at most 40")
        self.expect("lib/base/a.cpp", OPENING + "class A {\n" + methods +
                    "  friend int operator+(const A&, int);\n};\n", "A declares 41 methods")

    def test_data_members_of_a_class(self):
        members = "  int f();\n" + "".join(f"  std::map<int, int> m{i}{{}};\n" for i in range(28))
        self.expect("lib/base/a.cpp", OPENING + "class A {\n" + members +
                    "  Duration a = f(1), b;\n  static constexpr int kC = 3;\n};\n")
        self.expect("lib/base/a.cpp", OPENING + "class A {\n" + members + "  int a, b, c;\n};\n",
                    "A has 31 data members, at most 30")
        self.expect("lib/base/a.cpp", OPENING + "struct Record {\n" + "  int x;\n" * 50 + "};\n")

    def test_files_of_a_folder(self):
        said = problems({f"lib/base/a{i}.cpp": OPENING for i in range(41)})
        self.assertEqual(said, ["lib/base:1: 41 files in one folder, at most 40"])
        self.assertEqual([], problems({f"tests/base/a{i}.cpp": OPENING for i in range(60)}))

    def test_private_words(self):
        glossary = "## Words that are not used\n\n| word | say |\n| --- | --- |\n" \
                   "| under way | in flight |\n| let_in | hand_off |\n"
        said = problems({"docs/glossary.md": glossary, "docs/page.md": "What is under\nway.\n",
                         "docs/history/old.md": "under way", "lib/base/a.cpp":
                         OPENING + "// Under way.\nint let_in();\nint outlet_inner();\n"})
        self.assertEqual([line.split(":")[:2] for line in said],
                         [["docs/page.md", "1"], ["lib/base/a.cpp", "3"], ["lib/base/a.cpp", "4"]])

    def test_circles_of_folders(self):
        include = OPENING + '#include "{}"\n'
        tree = {"lib/srd/a.cpp": include.format("lib/srd/send/b.hpp"),
                "lib/srd/send/b.hpp": OPENING + '#pragma once\n#include "lib/srd/state/c.hpp"\n',
                "lib/srd/state/c.hpp": OPENING + "#pragma once\n"}
        self.assertEqual([], problems(tree))
        tree["lib/srd/state/c.hpp"] += '#include "lib/srd/send/b.hpp"\n'
        self.assertEqual(problems(tree), ["lib/srd/send:1: folders that include each other: "
                                          "lib/srd/send, lib/srd/state"])

    def test_files_that_comments_name(self):
        self.expect("lib/base/a.cpp", OPENING + "// See b.hpp, lib/base/a.cpp, base/a.cpp and\n"
                    "// <linux/if.hpp>, NAME.cpp.\n", "a.cpp:3: b.hpp: there is no such file")

    def test_files_that_programs_leave(self):
        self.expect("program.80s-1,host.btr", "Backtrace\n", "btr:1: no file of the top level")
        self.expect("\001", "", r"\x01:1: no file of the top level")

    def test_types_and_tables_are_no_functions(self):
        rows = '  {1, f(2)},\n' * 80
        self.expect("lib/base/a.cpp", OPENING + "constexpr Row kRows[] = {\n" + rows + "};\n"
                    "struct alignas(64) A {\n" + "  int x;\n" * 80 + "};\n")

    def test_words(self):
        self.expect("lib/base/a.cpp", OPENING + "int get_size();\n", "a.cpp:3: get_size")
        self.expect("lib/base/a.cpp", OPENING + "class QpManager;\n", "QpManager: say what")
        self.expect("lib/base/a.cpp", OPENING + "// TODO: more\n", "a.cpp:3: mark of unfinished")
        self.expect("lib/base/string_util.cpp", OPENING, "file name: say what it does")
        self.expect("lib/base/a.cpp", OPENING + "int Utilization = 1;  // no Helper\n")

    def test_titles_of_tests(self):
        self.expect("tests/base/a_test.cpp", OPENING + 'TEST_CASE("one, and more") { a(); b(); }\n'
                    'TEST_CASE_METHOD(Two, "it holds "\n    "this; and that") {}\n',
                    "a_test.cpp:4: a test's title with a ';'")
        self.expect("tests/base/a_test.cpp", OPENING + 'WEFT_ON_PORTS(body, "this; that")\n',
                    "a_test.cpp:3: a test's title with a ';'")

    def test_headers(self):
        self.expect("lib/base/a.hpp", OPENING, "a.hpp:1: no #pragma once")

    def test_includes(self):
        def include(target):
            return OPENING + f"#include {target}\n"
        self.expect("lib/wire/a.cpp", include('"lib/roce/engine.hpp"'),
                    "a.cpp:3: room wire may not include")
        self.expect("examples/a.cpp", include('"lib/base/bytes.hpp"'), "room examples may not")
        self.expect("bench/weft_a.cpp", include('"lib/wire/parse.hpp"'), "room bench may not")
        self.expect("lib/verbs/a.cpp", include('"providers/roce/roce.hpp"'), "room verbs may not")
        self.expect("include/weft/a.hpp", include('"lib/base/bytes.hpp"\n#pragma once'),
                    "room api may not")
        self.expect("providers/port/udp/a.cpp", include('"providers/port/shm/b.hpp"'),
                    "room port_udp may not")
        self.expect("providers/software/a.cpp", include('"providers/port/shm/b.hpp"'),
                    "room software may not")
        self.expect("providers/software/a.cpp", include('"providers/port/middleware/b.hpp"'))
        self.expect("lib/base/a.cpp", include('"bytes.hpp"'), "write the path from the root")
        self.expect("lib/base/a.cpp", include("<iostream>"), "<iostream> in the library")
        self.expect("examples/a.cpp", include('"side.hpp"'), "write the path from the root")
        self.expect("bench/raw/raw_a.cpp", include('"providers/port/shm/shm_port.hpp"'))
        self.expect("lib/novel/a.cpp", OPENING, "room novel has no row")
        self.expect("bench/weft_a.cpp", include("<iostream>"))

    def test_extensions_need_no_row(self):
        source = OPENING + '#include "%s"\n'
        ethernet = source % "providers/port/ethernet/framing.hpp"
        self.expect("providers/port/new/a.cpp", source % "lib/transport/port.hpp")
        self.expect("providers/port/new/a.cpp", ethernet, "room port_new may not")
        manifest = f"# {tidy.SPDX}\n# The port new.\nset(PORT_ROOMS port_ethernet)\n"
        self.assertEqual(problems({"providers/port/new/a.cpp": ethernet,
                                   "providers/port/new/port.cmake": manifest}), [])
        self.expect("providers/new/a.cpp", source % "lib/verbs/provider.hpp")
        self.expect("tools/new/a.cpp", source % "lib/base/bytes.hpp")


class Conformance(unittest.TestCase):
    CODE = {"lib/a.cpp": "//= roce:C-AV-98 roce:C-AV-99\n"}
    TEST = {"tests/sim/a_test.cpp": "// C-AV-98 and C-AV-99\n"}
    TABLE = {"lib/roce/DEVIATIONS.md": "| rule | what | why |\n| C-OPS-94 | no | it |\n"}

    def test_what_a_rule_can_be(self):
        status, said = conformance({**self.CODE, **self.TEST, **self.TABLE})
        self.assertEqual([status[rule] for rule in ("C-AV-98", "C-OPS-94", "C-OPS-93")],
                         ["covered", "deviates", "not yet"])
        self.assertIn("C-OPS-93 is not yet, and not in lib/roce/DEVIATIONS.md", said)
        self.assertFalse([text for text in said if "C-OPS-94" in text or "C-AV-98" in text])

    def test_half_of_a_rule_is_none(self):
        for half, state in ((self.CODE, "code only"), (self.TEST, "test only")):
            self.assertIn(f"C-AV-99 is {state}, and not in lib/roce/DEVIATIONS.md",
                          conformance(half)[1])

    def test_rows_of_the_table(self):
        for row in ("| C-OPS-999 | no | it |", "| C-OPS-94 | no |  |", "| C-OPS-94 | no |"):
            status, said = conformance({"lib/roce/DEVIATIONS.md": row + "\n"})
            self.assertEqual(status["C-OPS-94"], "not yet")
            self.assertTrue([text for text in said if "DEVIATIONS.md:1: wants" in text], said)

    def test_an_annex_of_ibta_is_no_attack(self):
        line = "roce:C-OPS-93 as IBTA A14.5 has it, threat:A07\n"
        status, _ = conformance({"lib/a.cpp": "//= " + line, "tests/sim/a_test.cpp": "// " + line})
        self.assertEqual([status[attack] for attack in ("A14", "A07")], ["not yet", "covered"])

    def test_a_deviation_does_not_stand_for_a_required_citation(self):
        table = {"lib/roce/DEVIATIONS.md": "| C-AV-98 | no | it |\n"}
        self.assertIn("C-AV-98 is required and not yet", conformance(table)[1])


if __name__ == "__main__":
    unittest.main()
