#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The ABI of libweft.so beside the one that is recorded: abi_types.txt has the layout of each
public type, as libabigail reads it from the headers, and abi_symbols.txt what the library exports.

A change that programs which are compiled would not survive (a symbol that is gone, a member at
another place) fails. What is new fails, too, until it is recorded:

    python3 tests/api/abi_test.py --record    # refuses what breaks the ABI of a released version

docs/versions.md says which changes a version may have."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
LIBRARY = BUILD / "lib/libweft.so"
INCLUDE = ROOT / "include"
TYPES = pathlib.Path(__file__).with_name("abi_types.txt")
SYMBOLS = pathlib.Path(__file__).with_name("abi_symbols.txt")
HEAD = {TYPES: "# TYPE BYTES, then MEMBER OFFSET TYPE, base or virtual function and its place, or "
               "ENUMERATOR VALUE.\n",
        SYMBOLS: "# What libweft.so exports under WEFT_0, but for inline functions.\n"}
KINDS = ("class-decl", "union-decl", "enum-decl")
# Types that a user's program holds. Instances of templates follow from what they hold.
PUBLIC = re.compile(r"weft(_|::(?!verbs::))[^<]*$")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def symbols(library):
    """Inline functions are in the library or not as the compiler likes: weak ones do not count."""
    strong = re.findall(r"^[0-9a-f]+ [A-TX-Z] (.*)@@WEFT_0$",
                        run("nm", "-DC", "--defined-only", library), re.M)
    return sorted(set(strong))


class Abi:
    """The public types in what abidw writes."""

    def __init__(self, text):
        root = xml.etree.ElementTree.fromstring(text)
        self.by_id = {node.get("id"): node for node in root.iter() if node.get("id")}
        self.full = {}  # id: name with its namespaces
        self.types = {}
        self.walk(root, "")

    def walk(self, node, scope):
        for child in node:
            name = scope + child.get("name", "")
            if child.tag == "namespace-decl":
                self.walk(child, name + "::")
            elif child.tag in KINDS:
                self.full[child.get("id")] = name
                if PUBLIC.match(name) and not child.get("is-declaration-only"):
                    self.types[name] = child
                self.walk(child, name + "::")
            else:
                self.walk(child, scope)

    def name(self, identity):
        node = self.by_id[identity]
        if node.tag == "pointer-type-def":
            return self.name(node.get("type-id")) + "*"
        if node.tag == "reference-type-def":
            return self.name(node.get("type-id")) + "&"
        if node.tag == "qualified-type-def":
            return "const " + self.name(node.get("type-id"))
        if node.tag == "array-type-def":
            return self.name(node.get("type-id")) + "".join(
                f"[{part.get('length')}]" for part in node.findall("subrange"))
        if node.tag == "function-type":
            parts = [self.name(part.get("type-id")) for part in node.findall("parameter")]
            return f"{self.name(node.find('return').get('type-id'))}({', '.join(parts)})"
        return self.full.get(identity, node.get("name"))

    def members(self, node):
        for part in node.findall("enumerator"):
            yield f"{part.get('name')} {part.get('value')}"
        for part in node.findall("base-class"):
            at = int(part.get("layout-offset-in-bits")) // 8
            yield f"base {at} {self.name(part.get('type-id'))}"
        for part in node.findall("data-member"):
            what = part.find("var-decl")
            offset = part.get("layout-offset-in-bits")
            if offset is not None:  # a static member has none
                yield f"{what.get('name')} {int(offset) // 8} {self.name(what.get('type-id'))}"
        for part in node.findall("member-function"):
            if part.get("vtable-offset"):
                what = part.find("function-decl").get("name")
                yield f"virtual {what} {part.get('vtable-offset')}"

    def table(self):
        """{type: (bytes, its members)}."""
        found = {}
        for name, node in sorted(self.types.items()):
            bits = node.get("size-in-bits")
            if bits is None:  # an enumeration: of its underlying type
                bits = self.by_id[node.find("underlying-type").get("type-id")].get("size-in-bits")
            found[name] = (int(bits) // 8, list(self.members(node)))
        return found


def layouts(include):
    """The layout of each type of the headers in include/weft."""
    headers = sorted([*(include / "weft").glob("*.hpp"), include / "weft/weft.h",
                      include / "weft/sim.h"])
    code = "".join(f"#include <weft/{header.name}>\n" for header in headers)
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "all.cpp"), pathlib.Path(folder, "all.so")
        source.write_text(code + 'extern "C" void something() {}\n')
        run("g++", "-std=c++20", "-g", "-O0", "-fPIC", "-shared", f"-I{include}",
            "-fno-eliminate-unused-debug-types", "-femit-class-debug-always", source, "-o", library)
        return Abi(run("abidw", "--load-all-types", "--no-show-locs", "--no-corpus-path",
                       "--no-comp-dir-path", "--headers-dir", include / "weft",
                       "--drop-private-types", library)).table()


def text_of(table):
    return "".join(f"{name} {size}\n" + "".join(f"  {member}\n" for member in members)
                   for name, (size, members) in table.items())


def table_of(text):
    found = {}
    for line in text.splitlines():
        if line.startswith("  "):
            found[name][1].append(line.strip())
        elif not line.startswith("#"):
            name, _, size = line.rpartition(" ")
            found[name] = (int(size), [])
    return found


def broken_types(old, new):
    """What a program that was compiled with `old` would not find."""
    for name, (size, members) in old.items():
        if name not in new:
            yield f"{name} is gone"
            continue
        now, there = new[name]
        # Structures of C begin with the size that their program knows (docs/c.md).
        grows = members and members[0].startswith("size 0 ")
        if now != size and not (grows and now > size):
            yield f"{name} has {now} bytes, recorded are {size}"
        yield from (f"{name}: no {member}" for member in members if member not in there)


def broken_symbols(old, new):
    return [f"{symbol} is gone" for symbol in sorted(set(old) - set(new))]


def recorded_symbols():
    return [line for line in SYMBOLS.read_text().splitlines() if not line.startswith("#")]


def is_released():
    version = re.search(r"project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    return f"\n## {version}, unreleased\n" not in (ROOT / "CHANGELOG.md").read_text()


def record():
    types, exported = layouts(INCLUDE), symbols(LIBRARY)
    if TYPES.exists() and is_released():
        broken = [*broken_types(table_of(TYPES.read_text()), types),
                  *broken_symbols(recorded_symbols(), exported)]
        if broken:
            sys.exit("\n".join([*broken, "This version is released: put it back, or raise the "
                                "minor number (docs/versions.md)."]))
    TYPES.write_text(HEAD[TYPES] + text_of(types))
    SYMBOLS.write_text(HEAD[SYMBOLS] + "".join(f"{symbol}\n" for symbol in exported))


class RecordedAbi(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.recorded = table_of(TYPES.read_text())
        cls.types = layouts(INCLUDE)

    def test_types(self):
        self.assertGreater(len(self.types), 100)
        self.assertEqual(list(broken_types(self.recorded, self.types)), [])
        self.assertEqual(text_of(self.types), text_of(self.recorded),
                         "new: record it, python3 tests/api/abi_test.py --record")

    def test_symbols(self):
        exported = symbols(LIBRARY)
        self.assertGreater(len(exported), 200)
        self.assertEqual(broken_symbols(recorded_symbols(), exported), [])
        self.assertEqual(exported, recorded_symbols(),
                         "new: record it, python3 tests/api/abi_test.py --record")

    def test_a_change_of_the_headers_is_seen(self):
        """A member in front of others, a wider enumeration, a virtual function."""
        changes = (("wr.hpp", "struct Completion {\n", "struct Completion {\n  int more = 0;\n",
                    ["weft::Completion has 48 bytes, recorded are 40",
                     "weft::Completion: no id 0 uint64_t"]),
                   ("types.hpp", "enum class QpType : uint8_t {", "enum class QpType : uint16_t {",
                    ["weft::QpType has 2 bytes, recorded are 1"]),
                   ("store.hpp", "  virtual ~Store", "  virtual void first();\n  virtual ~Store",
                    ["weft::Store: no virtual set 2"]))
        with tempfile.TemporaryDirectory() as folder:
            include = pathlib.Path(folder)
            shutil.copytree(INCLUDE / "weft", include / "weft")
            for header, old, new, _ in changes:
                path = include / "weft" / header
                self.assertIn(old, path.read_text())
                path.write_text(path.read_text().replace(old, new))
            said = list(broken_types(self.recorded, layouts(include)))
        for *_, wanted in changes:
            for line in wanted:
                self.assertIn(line, said)

    def test_a_structure_with_a_size_may_grow(self):
        old = {"weft_x": (8, ["size 0 unsigned int", "a 4 int"])}
        longer = {"weft_x": (12, ["size 0 unsigned int", "a 4 int", "b 8 int"])}
        self.assertEqual(list(broken_types(old, longer)), [])
        self.assertEqual(list(broken_types(longer, old)),
                         ["weft_x has 8 bytes, recorded are 12", "weft_x: no b 8 int"])

    def test_a_symbol_that_is_gone_is_seen(self):
        self.assertEqual(broken_symbols(["a()", "b()"], ["b()", "c()"]), ["a() is gone"])


if __name__ == "__main__":
    missing = [name for name in ("abidw", "g++", "nm") if not shutil.which(name)]
    if sys.argv[1:] == ["--record"] and not missing:
        record()
    elif missing or not LIBRARY.exists():
        print(f"SKIPPED: api/abi: not there: {' '.join(missing) or LIBRARY}")
    else:
        unittest.main()
