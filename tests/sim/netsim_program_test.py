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
        self.assertEqual(rows[2]["fct_dcqcn-hpccsim+win_ns"], "4014")  # 2 x (3 + 4) ns and 4 us
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

    def test_what_is_wrong_is_said(self):
        bad = self.write("bad.csv", "start_ns,src,dst,bytes", "0,1,0,1000", "0,1,7,1000")
        cases = [
            (["--flows", bad], "bad.csv: flow 2: node 7 is no host"),
            (["--flows", self.flows, "--set", "hpcc.etta=1"], "hpcc has no parameter 'etta'"),
            (["--flows", self.flows, "--set", "hpcc.eta"], "write key=value"),
            (["--flows", self.flows, "--cc", "hpc"], "no controller 'hpc'"),
            (["--flows", self.flows, "--until", "soon"], "is no time"),
            (["--flows", self.flows, "--seeds", "5..1"], "write a range like 1..5"),
            (["--flows", self.path / "none.csv"], "cannot be read"),
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
