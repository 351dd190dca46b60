#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A controller in a shared object, named by its path: it runs in the simulator, under both kinds of
hosts, and in the engines of RoCE and SRD; what is no such object is refused with its remedy."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))
import suite  # noqa: E402

BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
BIN = BUILD / "bin"
TORTOISE = BUILD / "lib/plugins/tortoise.so"
# Says on standard error that it runs, once per process.
LOUD = r"""
#include <cstdio>
#include <weft/congestion.hpp>
namespace cc = weft::congestion;
static constexpr cc::Parameter kParameters[] = {{"min_rate_mbps", "Mb/s", 10, "of this test"},
                                                {"cut", "factor", 0.5, "of this test"}};
static void on_ack(cc::State& state, const cc::Preset& preset, const cc::Ack& ack) {
  static bool said = false;
  if (!said) std::fprintf(stderr, "loud: on_ack, cut %g\n", preset[1]);
  said = true;
  if (ack.rtt.ns() > 100000) state.decision.rate *= preset[1];
}
static constexpr cc::Kind kLoud = {.name = "NAME", .what = "of a test",
                                   .signal = cc::Signal::delay, .parameters = kParameters,
                                   .on_ack = on_ack};
WEFT_CONTROLLER(kLoud);
"""
FLAGS = ("-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
CPP = ("c++", "-std=c++20", "-fvisibility=hidden")


def run(*command, cwd=None, **environment):
    """Its exit status, standard output and standard error."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, timeout=120, text=True,
                          env={**inherited, **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True)
    return done.returncode, done.stdout, done.stderr


class WithObjects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="weft-plugin-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.compile("loud", LOUD.replace("NAME", "loud"))

    @classmethod
    def compile(cls, name, text, compiler=CPP):
        source = cls.folder / (name + (".cpp" if compiler[0] == "c++" else ".c"))
        source.write_text(text)
        code, _, said = run(*compiler, *FLAGS, f"-I{ROOT}/include", source, "-o",
                            cls.folder / f"{name}.so")
        if code != 0:
            raise AssertionError(said)

    def sim(self, *words, cwd=None):
        return run(BIN / "weft_sim", "run", "incast-16", *words, cwd=cwd or self.folder)


class Runs(WithObjects):
    def test_in_the_simulator(self):
        for words in (("cc=loud.so",), ("--cc", "./loud.so"), ("cc=./loud.so", "loud.cut=0.25"),
                      ("cc=hpcc,./loud.so+win",), ("cc=loud.so", "--fidelity", "engine"),
                      (f"cc={self.folder}/loud.so", "--fidelity", "srd")):
            with self.subTest(words):
                code, out, said = self.sim(*words)
                self.assertEqual(code, 0, said)
                cut = "0.25" if "loud.cut=0.25" in words else "0.5"
                self.assertIn(f"loud: on_ack, cut {cut}", said)
                self.assertRegex(out, r"\bloud\b")
                self.assertNotIn(".so", out)  # it goes by its name

    def test_of_a_scenario_file_beside_it(self):
        text = (ROOT / "scenarios/incast-16.toml").read_text()
        self.assertRegex(text, "(?m)^controllers = .*$")
        text = re.sub("(?m)^controllers = .*$", 'controllers = ["./loud.so"]', text)
        (self.folder / "own.toml").write_text(text + '"loud.cut" = 0.125\n')  # in its [set]
        code, _, said = run(BIN / "weft_sim", "run", self.folder / "own.toml", cwd="/")
        self.assertEqual(code, 0, said)
        self.assertIn("loud: on_ack, cut 0.125", said)

    def test_the_example(self):
        code, out, said = self.sim(f"cc={TORTOISE}", "tortoise.step_mbps=500")
        self.assertEqual(code, 0, said)
        self.assertIn("tortoise", out)

    def test_in_the_engines(self):
        for program, device in (("hello_write", "roce+udp:lo"), ("hello_srd", "srd+udp:lo")):
            with self.subTest(device):
                code, _, said = run(BIN / program, cwd=self.folder,
                                    WEFT_DEVICE=f"{device},cc=./loud.so,cc.cut=0.75")
                self.assertEqual(code, 0, said)
                self.assertIn("loud: on_ack, cut 0.75", said)


class Refused(WithObjects):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.compile("taken", LOUD.replace("NAME", "hpcc"))
        cls.compile("nothing", "int nothing = 1;", ("cc",))
        cls.compile("older", "const unsigned weft_controller = 99;", ("cc",))
        (cls.folder / "text.so").write_text("#!/bin/sh\n")
        (cls.folder / "short.so").write_bytes((cls.folder / "loud.so").read_bytes()[:3000])

    def test_each_with_its_remedy(self):
        for name, why in (("absent", r"there is no plug-in ./absent.so: name a shared object by"),
                          ("nothing", "no symbol weft_controller: end its source with WEFT_CONTR"),
                          ("older", r"for the interface 99 of <weft/congestion.hpp>, and this weft "
                                    r"has \d+: compile it again"),
                          ("text", "it is not a shared object"),
                          ("short", "truncated at byte 3000"),
                          ("taken", "./taken.so: add_controller: 'hpcc' is taken")):
            with self.subTest(name):
                code, _, said = self.sim(f"cc=./{name}.so")
                self.assertEqual((code, len(said.splitlines())), (2, 1), said)
                self.assertRegex(said, why)
                code, out, _ = run(BIN / "weft_info", "-d", f"srd+udp:lo,cc=./{name}.so",
                                   cwd=self.folder)
                self.assertEqual(code, 1)
                self.assertRegex(out, why)

    def test_unknown_parameters(self):
        code, _, said = self.sim("cc=loud.so", "loud.cuts=1")
        self.assertEqual(code, 2)
        self.assertIn("loud has no parameter 'cuts'; it has min_rate_mbps, cut", said)

    def test_of_a_process_with_more_rights_than_its_caller(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files to other users")
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")
        program = self.folder / "weft_info"
        shutil.copy(BIN / "weft_info", program)
        self.folder.chmod(0o755)
        os.chown(program, 65534, -1)
        program.chmod(0o4755)
        _, out, said = run(program, "-d", f"roce+udp:lo,cc={self.folder}/loud.so")
        if "cannot open shared object file" in said:
            self.skipTest("other users cannot read the build")
        self.assertIn("loud.so is not loaded: this process has more rights than its caller", out)


if __name__ == "__main__":
    if not (BIN / "weft_sim").exists():
        suite.skip("tools/ is not built")
        sys.exit(0)
    suite.run()
