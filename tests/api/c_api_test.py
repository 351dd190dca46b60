#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: realtime
"""The C API as a program in C sees it: its headers compile alone and without a warning, as C and as
C++, every function of them is exported, and c_calls.c and the example in C run over sockets and
shared memory."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
HEADERS = ("weft.h", "weft_types.h", "sim.h")
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
FUNCTION = re.compile(r"^(?!typedef)\w[\w ]*?[ \*]+(weft_\w+)\(", re.M)


def sanitizer():
    """A program that links a sanitized library needs the same."""
    found = re.search(r"^WEFT_SANITIZE:\w+=(\S+)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return [f"-fsanitize={found.group(1)}"] if found else []


def call(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, **env))
    return done.returncode, done.stdout + done.stderr


def compiled(program, *sources):
    return call("cc", *STRICT, "-D_GNU_SOURCE", f"-I{ROOT}/include",
                *(str(ROOT / source) for source in sources), "-o", str(program),
                f"-L{BUILD}/lib", "-lweft", f"-Wl,-rpath,{BUILD}/lib", *sanitizer())


class CApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="weft-c-")
        cls.work = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_headers_alone(self):
        for header in HEADERS:
            for compiler, language in (("cc", "c11"), ("cc", "c2x"), ("g++", "c++20")):
                with self.subTest(header=header, language=language):
                    source = self.work / ("alone.c" if compiler == "cc" else "alone.cpp")
                    source.write_text(f"#include <weft/{header}>\n")
                    code, said = call(compiler, f"-std={language}", *STRICT[1:], "-fsyntax-only",
                                      f"-I{ROOT}/include", str(source))
                    self.assertEqual((code, said), (0, ""))

    def test_every_function_is_exported_and_no_other(self):
        _, said = call("nm", "-D", "--defined-only", str(BUILD / "lib/libweft.so"))
        exported = set(re.findall(r" T (weft_\w+)", said))
        declared = {name for header in HEADERS
                    for name in FUNCTION.findall((ROOT / "include/weft" / header).read_text())}
        self.assertGreater(len(declared), 50)
        self.assertEqual(exported, declared)

    def test_calls(self):
        program = self.work / "c_calls"
        self.assertEqual(compiled(program, "tests/api/c_calls.c", "tests/api/c_refusals.c"),
                         (0, ""))
        for port in ("udp:lo", "shm:test-c-api"):
            for what in ("rc", "uc", "ud", "srd", "steps", "events", "refusals"):
                with self.subTest(port=port, what=what):
                    provider = "srd" if what == "srd" else "roce"
                    self.assertEqual(call(str(program), f"{provider}+{port}", what),
                                     (0, f"{what}: good\n"))

    def test_example(self):
        program = self.work / "hello_write_c"
        self.assertEqual(compiled(program, "examples/hello_write.c"), (0, ""))
        for device in ("roce+udp:lo", "roce+shm:test-c-example"):
            code, said = call(str(program), WEFT_DEVICE=device)
            self.assertEqual(code, 0, said)
            self.assertIn("server: in my memory: written from C!", said)


if __name__ == "__main__":
    unittest.main()
