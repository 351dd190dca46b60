#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_sim as people call it: the command of the documentation, its files, its messages.

Replays nothing at random. WEFT_BUILD names the build directory; the program is built by the target
`programs`.
"""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")) / "bin/weft_sim"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        rows = [f"{host},4,100,1000" for host in range(4)]
        self.links = self.write("links.csv", "node_a,node_b,gbps,delay_ns", *rows)
        self.flows = self.write("flows.csv", "start_ns,src,dst,bytes", "1000,1,0,200000",
                                "0,2,0,300000", "0,3,0,1", "1990000,1,0,90000000")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, *lines):
        path = self.path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def test_the_documented_command(self):
        out = self.path / "out"
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc",
                   "hpcc,dcqcn-hpccsim+win", "--set", "hpcc.max_stage=0", "--set",
                   "switch.buffer_mb=32", "--set", "net.payload=1000", "--until", "2ms", "--seed",
                   "1", "--fidelity", "flow", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out / "flows.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), ["src", "dst", "bytes", "start_ns", "ideal_ns",
                                         "fct_hpcc_ns", "fct_dcqcn-hpccsim+win_ns"])
        self.assertEqual([row["bytes"] for row in rows], ["200000", "300000", "1", "90000000"])
        self.assertEqual(rows[2]["ideal_ns"], "4163")  # 4160 + 49 B at 100 Gb/s
        # 2 x (3.92 + 4.8) ns and 4 us
        self.assertEqual(rows[2]["fct_dcqcn-hpccsim+win_ns"], "4017")
        self.assertEqual(rows[3]["fct_hpcc_ns"], "")  # unfinished
        self.assertGreater(int(rows[1]["fct_hpcc_ns"]), int(rows[1]["ideal_ns"]))
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["parameters"]["switch.buffer_mb"], 32)
        self.assertEqual(summary["runs"][0]["in_force"]["parameters"]["eta"], 0.95)
        self.assertEqual(summary["runs"][0]["unfinished"], 1)
        self.assertEqual(summary["runs"][1]["in_force"]["window_bytes"], 52000)
        queues = (out / "queues.csv").read_text()
        self.assertIn("hpcc,all,", queues)
        self.check_page(out / "report.html")

    def test_srd_engines_under_any_controller(self):
        out = self.path / "out"
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc",
                   "swift,hpcc-pint,nscc", "--until", "2ms", "--fidelity", "srd", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["fidelity"], "srd")
        with open(out / "flows.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        for name in "swift", "hpcc-pint", "nscc":
            for row in rows[:3]:  # the last one is cut off by --until
                self.assertGreater(int(row[f"fct_{name}_ns"]), 2000, name)
            self.assertLess(int(rows[1][f"fct_{name}_ns"]), 2 * int(rows[1]["ideal_ns"]), name)
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc", "hpcc",
                   "--fidelity", "srd")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("hpcc-pint lives on their digest", done.stderr)

    def test_links_series_and_warm_up(self):
        out = self.path / "out"
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc", "hpcc,none",
                   "--until", "2ms", "--set", "metrics.warm_up_ns=500", "--series",
                   "--series-flows", "1,0", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out / "links.csv", newline="") as file:
            links = list(csv.DictReader(file))
        self.assertEqual(len(links), 2 * 2 * 4)  # controllers, directions, links
        into = [row for row in links if row["from"] == "4" and row["to"] == "0"]
        self.assertEqual([row["controller"] for row in into], ["hpcc", "none"])
        # 500,001 B and what the last flow had sent, with headers, within 2 ms at 12.5 B/ns.
        for row in into:
            self.assertAlmostEqual(float(row["utilisation"]),
                                   int(row["sent_bytes"]) / (12.5 * 2e6), 3)
        with open(out / "series.csv", newline="") as file:
            series = list(csv.DictReader(file))
        self.assertEqual(list(series[0]), ["controller", "at_ns", "longest_queue_bytes",
                                           "gbps_of_flow_1", "gbps_of_flow_0"])
        self.assertEqual(float(series[0]["gbps_of_flow_0"]), 0)  # it starts at 1,000 ns
        self.assertGreater(float(series[1]["gbps_of_flow_1"]), 0)
        one = json.loads((out / "summary.json").read_text())["runs"][0]
        # After the warm-up only flow 0 begins and ends; no other flow shares its bottleneck.
        self.assertEqual(one["slowdown"][-1]["flows"], 1)
        self.assertEqual(one["jain"]["links"], 0)
        self.assertEqual(one["unfinished"], 1)
        self.assertAlmostEqual(one["goodput_gbps"], 200000 * 8 / one["fct_us"]["last"] / 1e3, 5)

    def test_a_capture_is_roce(self):
        one = self.path / "one.pcap"
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc", "dcqcn-hpccsim",
                   "--pcap", one, "--pcap-flows", "0,2", "--until", "1ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run(
            ["tshark", "-r", one, "-T", "fields", "-e", "ip.src", "-e", "infiniband.bth.opcode",
             "-e", "infiniband.bth.psn", "-e", "infiniband.invariant.crc", "-e", "_ws.expert"],
            capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        data = [row for row in rows if row[0] == "10.0.0.1"]
        self.assertEqual([int(row[2]) for row in data], list(range(200)))
        self.assertEqual([row[1] for row in data], ["6"] + ["7"] * 198 + ["8"])
        self.assertEqual([row[1] for row in rows if row[0] == "10.0.0.3"], ["10"])  # 1 B: only
        answers = {row[1] for row in rows if row[0] == "10.0.0.0"}
        self.assertLessEqual(answers, {"17", "129"})
        self.assertEqual({row[4] for row in rows}, {""}, "tshark complains")
        # Several runs have a file each; sprayed flows are no queue pairs.
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc", "none,hpcc",
                   "--pcap", self.path / "two.pcap", "--until", "1ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.path / "two-hpcc-seed_1.pcap").exists())
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc", "nscc",
                   "--pcap", self.path / "three.pcap")
        self.assertIn("not nscc", done.stderr)

    def test_a_trace_of_a_real_run_is_replayed(self):
        example = PROGRAM.parent / "rpc_pingpong"
        trace = self.path / "trace-%p.csv"  # client and server are two processes
        done = subprocess.run([example], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "WEFT_DEVICE": f"roce+udp:lo,tracer={trace}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        traces = sorted(self.path.glob("trace-*.csv"))
        self.assertEqual(len(traces), 2)
        seen = []
        for trace in traces:
            with open(trace, newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertGreater(len(rows), 1)
            self.assertEqual({row["direction"] for row in rows}, {"in", "out"})
            for row in rows:
                self.assertEqual(row["src"] == "0", row["direction"] == "out")
            seen.append(sorted((row["source"], row["destination"], row["operation"], row["bytes"])
                               for row in rows))
        self.assertEqual(seen[0], seen[1])  # both ends saw the same messages
        out = self.path / "replayed"
        done = run("run", "--topology", self.links, "--flows", traces[1], "--cc", "hpcc", "--out",
                   out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out / "flows.csv", newline="") as file:
            flows = list(csv.DictReader(file))
        self.assertEqual(len(flows), len(seen[1]))
        self.assertTrue(all(flow["fct_hpcc_ns"] for flow in flows))

    def check_page(self, path):
        page = path.read_text()
        self.assertNotRegex(page, r"(src|href)\s*=")  # loads nothing
        drawings = re.findall(r"<svg.*?</svg>", page, re.S)
        self.assertGreaterEqual(len(drawings), 6)
        for drawing in drawings:
            xml.etree.ElementTree.fromstring(drawing)
            self.assertNotIn("nan", drawing)

    def test_jobs_and_repetition_change_nothing(self):
        digests = []
        for jobs in (1, 2):
            out = self.path / f"jobs{jobs}"
            done = run("run", "--topology", self.links, "--flows", self.flows, "--cc",
                       "hpcc,timely,dctcp", "--until", "3ms", "--jobs", jobs, "--out", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((out / "summary.json").read_text())
            digests.append([one["digest"] for one in summary["runs"]])
        self.assertEqual(digests[0], digests[1])

    def test_seeds_and_sweeps(self):
        out = self.path / "sweep"
        done = run("run", "--topology", self.links, "--flows", self.flows, "--cc", "hpcc,dctcp",
                   "--sweep", "hpcc.eta=0.9,0.95", "--seeds", "1..2", "--until", "1ms", "--out",
                   out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("hpcc[hpcc.eta=0.9]: 2 seeds", done.stdout)
        for seed in (1, 2):
            head = (out / f"seed_{seed}/flows.csv").read_text().split("\n")[0]
            self.assertTrue(head.endswith("fct_hpcc[hpcc.eta=0.9]_ns,fct_hpcc[hpcc.eta=0.95]_ns,"
                                          "fct_dctcp_ns"), head)
        self.check_page(out / "report.html")

    def test_keys_lists_every_key(self):
        done = run("keys")
        self.assertEqual(done.returncode, 0)
        for key in ("switch.buffer_mb", "net.payload", "hpcc.max_stage", "dcqcn-hpccsim.g"):
            self.assertRegex(done.stdout, rf"(?m)^{re.escape(key)} ")

    def test_keys_of_a_controller_say_where_defaults_are_from(self):
        done = run("keys", "hpcc", "timely+win")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("paper: Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019",
                      done.stdout)
        self.assertRegex(done.stdout, r"(?m)^hpcc\.max_stage +0 +RTTs *\n    from HPCC, erratum on "
                                      r"the authors' site; the paper prints 5$")
        self.assertRegex(done.stdout, r"(?m)^timely\.beta +0\.8 ")
        self.assertNotIn("switch.", done.stdout)
        self.assertNotIn("*", done.stdout)
        marked = run("keys", "dcqcn-paper").stdout
        self.assertRegex(marked, r"(?m)^dcqcn-paper\.min_rate_mbps .*\n    \* no source; the ")
        self.assertIn("* a constant that no paper, specification or program gives", marked)
        self.assertIn("no controller 'hpc'", run("keys", "hpc").stderr)

    def test_what_is_wrong_is_said(self):
        bad = self.write("bad.csv", "start_ns,src,dst,bytes", "0,1,0,1000", "0,1,7,1000")
        cases = [
            (["--flows", bad], "bad.csv: flow 2: node 7 is no host"),
            (["--flows", self.flows, "--set", "hpcc.etta=1"], "hpcc has no parameter 'etta'"),
            (["--flows", self.flows, "--set", "hpcc.eta"], "write key=value"),
            (["--flows", self.flows, "--cc", "hpc"], "no controller 'hpc'"),
            (["--flows", self.flows, "--until", "soon"], "is no time"),
            (["--flows", self.flows, "--until", "2"], "--until 2 has no unit"),
            (["--flows", self.flows, "--seeds", "5..1"], "write a range like 1..5"),
            (["--flows", self.path / "none.csv"], "cannot be read"),
            (["--flows", self.flows, "--series-flows", "0,9"], "there is no flow 9"),
            (["--flows", self.flows, "--pcap-flows", "4"], "there is no flow 4"),
            ([], "give a scenario file"),
        ]
        for arguments, message in cases:
            done = run("run", "--topology", self.links, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    if not PROGRAM.exists():
        print(f"{PROGRAM} is not built: cmake --build build/release --target programs")
        sys.exit(1)
    unittest.main()
