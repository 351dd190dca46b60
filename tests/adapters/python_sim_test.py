#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The simulator in Python: the same results as weft_sim, controllers in Python that repeat, what
they raise, and what is refused. (docs/simulator-python.md is run by tests/docs.)"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
sys.path.insert(0, str(BUILD / "lib/python"))


def missing():
    cache = (BUILD / "CMakeCache.txt").read_text()
    if re.search(r"^WEFT_SANITIZE:\w+=\S", cache, re.M):
        return "built with sanitizers, which python3 does not load"
    try:
        import cffi  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as why:
        return f"not installed: python3-{why.name}"
    return None


if missing():
    print(f"SKIPPED: adapters/python_sim_test: {missing()}")
    sys.exit(0)

import numpy  # noqa: E402
import weft  # noqa: E402
from weft import sim  # noqa: E402

INCAST = sim.scenario(sim.network("star", hosts=5),
                      sim.flows("incast", senders=4, receiver=0, bytes=200_000))


class Cuts(sim.Controller):
    """Records what it is told of each flow."""

    def __init__(self, signal="delay"):
        self.signal = signal
        self.acks = self.marks = self.cnps = self.hops = self.timers = self.losses = 0
        self.flows = []

    def on_start(self, flow):
        self.flows.append((flow.number, flow.line_rate, flow.base_rtt_ns))
        flow.deadline_ns = 10_000

    def on_ack(self, flow, ack):
        self.acks += 1
        self.marks += ack.marked
        self.hops += ack.hop_count
        if ack.rtt_ns > 20_000:
            flow.rate = max(flow.rate * 0.9, 5e9)

    def on_cnp(self, flow, event):
        self.cnps += 1
        flow.rate /= 2

    def on_loss(self, flow, loss):
        self.losses += 1

    def on_timer(self, flow, event):
        assert event.now_ns >= 10_000 and flow.deadline_ns is None
        self.timers += 1


class OfWeftSim(unittest.TestCase):
    def test_results_are_those_of_the_program(self):
        if not (BUILD / "bin/weft_sim").exists():
            self.skipTest("tools/ is not built")
        with tempfile.TemporaryDirectory() as folder:
            scenario = pathlib.Path(folder) / "incast.toml"
            scenario.write_text(INCAST)
            subprocess.run([BUILD / "bin/weft_sim", "run", scenario, "--cc", "hpcc", "--out",
                            folder], check=True, capture_output=True)
            rows = (pathlib.Path(folder) / "flows.csv").read_text().split()
        result = sim.run(INCAST, "hpcc")
        self.assertEqual([int(row.split(",")[5]) for row in rows[1:]],
                         result.flows["fct_ns"].tolist())

    def test_a_shipped_scenario_and_a_shared_object(self):
        self.assertEqual(len(sim.run("incast-16").flows["fct_ns"]), 16)
        tortoise = BUILD / "lib/plugins/tortoise.so"
        self.assertGreater(sim.run(INCAST, f"{tortoise}+win").end_ns, 0)

    def test_tables(self):
        result = sim.run(INCAST, "none", settings={"switch.buffer_mb": 0.1})
        self.assertEqual({len(column) for column in result.flows.values()}, {4})
        self.assertEqual(result.flows["bytes"].tolist(), [200_000] * 4)
        self.assertEqual(result.flows["fct_ns"].dtype, numpy.int64)
        self.assertEqual(result.ports["utilisation"].dtype, numpy.float64)
        self.assertEqual(len(result.ports["source"]), 10)
        self.assertGreater(result.pauses, 0)
        self.assertGreater(result.queue["longest_bytes"].max(), 50_000)
        drawn = xml.etree.ElementTree.fromstring(sim.plot({"a<b": result}))
        self.assertTrue(drawn.findall("{*}polyline"))


class InPython(unittest.TestCase):
    def test_each_signal(self):
        for signal in ("none", "ecn", "delay", "telemetry"):
            with self.subTest(signal):
                cuts = Cuts(signal)
                result = sim.run(INCAST, cuts, settings={"switch.kmin": 100, "switch.kmax": 100})
                # The last acknowledgement ends the flow.
                self.assertEqual(cuts.acks, 4 * 200 - 4)
                self.assertEqual([flow[0] for flow in cuts.flows], [0, 1, 2, 3])
                self.assertEqual(cuts.flows[0][1], 100e9)
                self.assertEqual(cuts.timers, 4)
                self.assertEqual(cuts.hops, 796 if signal == "telemetry" else 0)
                self.assertGreater(cuts.marks, 0)
                self.assertGreater(cuts.cnps, 0)
                self.assertTrue((result.flows["fct_ns"] > 0).all())

    def test_repeats_and_differs(self):
        digests = [sim.run(INCAST, Cuts()).digest for _ in range(2)]
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0], sim.run(INCAST, "none").digest)

    def test_window_and_losses(self):
        class Window(Cuts):
            def on_start(self, flow):
                flow.window = 1000
        slow = sim.run(INCAST, Window())
        # One packet per round trip of 4.2 us.
        self.assertGreater(slow.flows["fct_ns"].min(), 199 * 4100)
        dropping = Cuts()
        result = sim.run(INCAST, dropping, settings={"switch.pfc": 0, "switch.buffer_mb": 0.1})
        self.assertGreater(result.dropped, 0)
        self.assertGreater(dropping.losses, 0)

    def test_flows_are_numbered_as_in_the_results(self):
        rows = numpy.array([[5000, 1, 0, 3000], [0, 2, 0, 4000], [5000, 3, 0, 5000]])

        class Done(Cuts):
            sent = {}

            def on_ack(self, flow, ack):
                self.sent[flow.number] = ack.sent
        result = sim.run(sim.scenario(sim.network("star", hosts=4), sim.flows("list", rows=rows)),
                         Done())
        self.assertEqual(result.flows["bytes"].tolist(), [4000, 3000, 5000])
        self.assertEqual([Done.sent[i] for i in range(3)], [4000, 3000, 5000])

    def test_threads_and_runs_within_runs(self):
        class Nested(Cuts):
            def on_start(self, flow):
                self.inner = sim.run(INCAST, Cuts()).digest
        expected = sim.run(INCAST, Cuts()).digest
        nested, found = Nested(), []
        sim.run(INCAST, nested)
        self.assertEqual(nested.inner, expected)
        threads = [threading.Thread(target=lambda: found.append(sim.run(INCAST, Cuts()).digest))
                   for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [expected] * 2)


class Refused(unittest.TestCase):
    def test_what_a_controller_raises(self):
        class Wrong(sim.Controller):
            def on_ack(self, flow, ack):
                raise KeyError("of the controller")
        with self.assertRaisesRegex(KeyError, "of the controller"):
            sim.run(INCAST, Wrong())

    def test_values_without_sense(self):
        for rate in (float("nan"), float("inf"), -1.0, 0.0, 1e30):
            class Odd(sim.Controller):
                def on_ack(self, flow, ack):
                    flow.rate, flow.window, flow.deadline_ns = rate, -5, -5
            self.assertGreater(sim.run(INCAST, Odd(), settings={}).end_ns, 0)

    def test_arguments(self):
        star = sim.network("star", hosts=3)
        some = sim.flows("incast", senders=2, receiver=0, bytes=1000)
        for scenario, words, why in (
                (sim.scenario(sim.network("ring", hosts=3), some), {}, "kind must be csv, links,"),
                (sim.scenario(sim.network("star", hosts=3, host=3), some), {}, "host: is no key"),
                (sim.scenario(star), {}, r"has no \[\[flows\]\]"),
                (sim.scenario(sim.network("links", links=[(0, 1, 100)]), some), {},
                 "row 1 must have 4 to 4 numbers"),
                (sim.scenario(star, sim.flows("list", rows=[(0, 1, 7, 10)])), {},
                 "row 1 must be"),
                ("nowhere", {}, "no scenario 'nowhere'"),
                (INCAST, {"controller": "hpc"}, "no controller 'hpc'"),
                (INCAST, {"settings": {"switch.buffers": 1}}, "switch.buffers"),
                (INCAST, {"controller": Cuts("smell")}, "no signal 'smell': use none, ecn"),
                (INCAST, {"controller": Cuts(), "settings": {"host.fidelity": "engine"}},
                 "WEFT_CONTROLLER")):
            with self.subTest(why), self.assertRaisesRegex(weft.Error, why):
                sim.run(scenario, **words)


if __name__ == "__main__":
    unittest.main()
