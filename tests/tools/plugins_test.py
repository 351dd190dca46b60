#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Networks, workloads, switch queues and path policies in shared objects: those of examples/plugins
in scenarios and devices, and what is refused. (Controllers: own_controller_test.py.)"""
import json
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
BIN, PLUGINS = BUILD / "bin", BUILD / "lib/plugins"
SCENARIO = """[network]
kind = "./ring.so"
hosts = 6
gbps = 40
[[flows]]
kind = "./shuffle.so"
bytes = 200_000
fan_out = 2
[run]
controllers = ["hpcc"]
"""
INCAST = """[network]
kind = "star"
hosts = 17
[[flows]]
kind = "incast"
senders = 16
receiver = 0
bytes = 500_000
"""
DROPS = r"""
#include <weft/simulation.hpp>
namespace sim = weft::simulation;
struct Count { uint32_t packets; };
static sim::Verdict on_arrival(sim::QueueState& state, const sim::QueuedPacket&) {
  return ++sim::own<Count>(state).packets % 50 == 0 ? sim::Verdict::drop : sim::Verdict::pass;
}
WEFT_QUEUE_DISCIPLINE((sim::QueueDiscipline{.on_arrival = on_arrival}));
"""
ODD = r"""
#include <weft/simulation.hpp>
namespace sim = weft::simulation;
static void build(sim::Keys& keys, sim::Links& links) {
  if (keys.number("hosts", 0) == 1) return keys.fail("hosts", "must be anything but 1");
  links.add({0, 4294967295u, 100000, 1000});
}
WEFT_TOPOLOGY((sim::Topology{.build = build}));
"""
LOUD = r"""
#include <cstdio>
#include <weft/path_policy.hpp>
namespace cc = weft::congestion;
static uint16_t next(void*, weft::Instant) {
  static int said = 0;
  if (said++ == 0) std::fprintf(stderr, "loud: next\n");
  return 811;  // of 8 paths the fourth
}
static void on_feedback(void*, uint16_t path, cc::PathFeedback, weft::Instant) {
  static int said = 0;
  if (said++ == 0) std::fprintf(stderr, "loud: feedback of path %d\n", path);
}
WEFT_PATH_POLICY((cc::PathKind{.name = "loud", .next = next, .on_feedback = on_feedback}));
"""


def run(*command, cwd=None, **environment):
    """Its exit status, standard output and standard error."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, timeout=120, text=True,
                          env={**inherited, **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True)
    return done.returncode, done.stdout, done.stderr


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weft-plugins-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for plugin in PLUGINS.glob("*.so"):
            shutil.copy(plugin, self.folder)

    def compile(self, name, text):
        (self.folder / f"{name}.cpp").write_text(text)
        code, _, said = run("c++", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-shared",
                            "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
                            f"-I{ROOT}/include", f"{name}.cpp", "-o", f"{name}.so",
                            cwd=self.folder)
        self.assertEqual(code, 0, said)

    def sim(self, text, *words, cwd="/"):
        """What `weft_sim run` says, and its summary."""
        (self.folder / "own.toml").write_text(text)
        out = self.folder / "out"
        code, _, said = run(BIN / "weft_sim", "run", self.folder / "own.toml", *words, "--out", out,
                            cwd=cwd)
        if code != 0:
            return said, None
        return said, json.loads((out / "summary.json").read_text())


class InScenarios(WithFolder):
    def test_a_network_and_a_workload(self):
        said, _ = self.sim(SCENARIO)
        self.assertEqual(said, "")
        rows = (self.folder / "out/flows.csv").read_text().split()[1:]
        self.assertEqual(len(rows), 12)
        for row in rows:
            source, destination, size, start = map(int, row.split(",")[:4])
            self.assertIn((destination - source) % 6, (1, 2))
            self.assertEqual(size, 200_000)
            self.assertLess(start, 10_000)
        again = self.sim(SCENARIO)
        self.assertEqual(rows, (self.folder / "out/flows.csv").read_text().split()[1:], again)

    def test_a_queue_discipline(self):
        """The phantom queue of the example marks before there is a queue."""
        flows = {}
        for discipline in ("thresholds", "./phantom.so"):
            said, _ = self.sim(INCAST + f'[set]\n"switch.discipline" = "{discipline}"\n',
                               "cc=dctcp")
            self.assertEqual(said, "")
            flows[discipline] = (self.folder / "out/flows.csv").read_text()
        self.assertNotEqual(flows["thresholds"], flows["./phantom.so"])
        said, _ = self.sim(INCAST, "cc=dctcp", "switch.discipline=./phantom.so", cwd=self.folder)
        self.assertEqual(flows["./phantom.so"], (self.folder / "out/flows.csv").read_text())

    def test_what_a_discipline_drops_is_sent_again(self):
        self.compile("drops", DROPS)
        long = "switch.queue=10000"  # nothing else is trimmed or dropped
        for words in (("cc=hpcc",), ("cc=nscc", long), ("cc=nscc", long, "switch.trim=0"),
                      ("cc=dcqcn-nic", "--fidelity", "engine")):
            with self.subTest(words):
                said, summary = self.sim(INCAST + '[set]\n"switch.discipline" = "./drops.so"\n',
                                         *words)
                self.assertEqual(said, "")
                done = summary["runs"][0]
                lost = "trimmed" if words[-1] == long else "dropped"
                # Of 8,000 packets or 1,968 each 50th, and of those that are sent again.
                self.assertGreater(done[f"packets_{lost}"], 30)
                self.assertGreater(done["data_packets_retransmitted"], 30)
                self.assertEqual(done["unfinished"], 0)

    def test_a_path_policy(self):
        text = (ROOT / "scenarios/spray-incast-16.toml").read_text()
        for name in re.findall(r'"([^"]*\.csv)"', text):
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "scenarios" / name, target)
        self.compile("loud", LOUD)
        for words in (("cc=nscc", "path.policy=./patient.so"),
                      ("cc=nscc", "--sweep", "path.policy=mixed,./loud.so")):
            said, _ = self.sim(text, *words, cwd=self.folder)
            self.assertEqual(said, "" if "loud" not in words[-1] else said)
            name = "loud" if "loud" in words[-1] else "patient"
            self.assertIn(f'"policy": "{name}"', (self.folder / "out/summary.json").read_text())
        self.assertIn("loud: next", said)
        self.assertIn("loud: feedback of path ", said)


class InDevices(WithFolder):
    def test_a_path_policy(self):
        self.compile("loud", LOUD)
        code, _, said = run(BIN / "hello_srd", cwd=self.folder,
                            WEFT_DEVICE="srd+udp:lo,paths=8,path_policy=./loud.so")
        self.assertEqual(code, 0, said)
        self.assertIn("loud: next", said)
        self.assertIn("loud: feedback of path 3\n", said)
        code, _, said = run(BIN / "hello_srd", cwd=self.folder,
                            WEFT_DEVICE="srd+udp:lo,paths=8,path_policy=./patient.so")
        self.assertEqual(code, 0, said)


class Refused(WithFolder):
    def test_each_with_its_remedy(self):
        self.compile("odd", ODD)
        self.compile("large", LOUD.replace('.name = "loud"', '.name = "l", .state_bytes = 5000'))
        for text, words, why in (
                (SCENARIO.replace("ring", "none"), (), r"own.toml:2: .*there is no plug-in .*none"),
                (SCENARIO.replace("ring", "shuffle"), (), "no symbol weft_topology: end its source "
                                                          "with WEFT_TOPOLOGY"),
                (SCENARIO.replace("shuffle", "ring"), (), "no symbol weft_workload"),
                (SCENARIO.replace("hosts", "host"), (), "host: is no key here"),
                (SCENARIO.replace("hosts = 6", "hosts = 2"), (), "network.hosts: must be 3 to"),
                (SCENARIO.replace("fan_out = 2", "fan_out = 9"), (), "fan_out: has no such hosts"),
                (SCENARIO.replace("ring", "odd"), (), "link 1 joins the nodes 0 and 4294967295"),
                (SCENARIO.replace("ring", "odd").replace("= 6", "= 1"), (), "anything but 1"),
                (INCAST, ("switch.discipline=./ring.so",), "no symbol weft_queue_discipline"),
                (INCAST, ("switch.discipline=red",), "must be one of thresholds, ./mine.so"),
                (INCAST, ("path.policy=./none.so",), "there is no plug-in"),
                (INCAST, ("path.policy=./large.so",), "4096 bytes of state; this one wants 5000")):
            with self.subTest(why):
                said, _ = self.sim(text, *words, cwd=self.folder)
                self.assertRegex(said, why)
                self.assertEqual(len(said.splitlines()), 1)
        for name, why in (("none.so", "there is no plug-in ./none.so"),
                          ("best", "there are single"),
                          ("./ring.so", "no symbol weft_path_policy")):
            _, out, _ = run(BIN / "weft_info", "-d", f"srd+udp:lo,path_policy={name}",
                            cwd=self.folder)
            self.assertRegex(out, f"path_policy={re.escape(name)}: .*{why}")


if __name__ == "__main__":
    if not (BIN / "weft_sim").exists():
        suite.skip("tools/ is not built")
        sys.exit(0)
    suite.run()
