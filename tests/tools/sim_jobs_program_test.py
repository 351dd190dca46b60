#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_sim with jobs, flows that wait for others, diff and explain, as people call it.

Replays nothing at random. WEFT_BUILD names the build directory; the program is built by the target
`programs`.
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")) / "bin/weft_sim"

JOB = """
title = "ring"
[network]
kind = "star"
hosts = 8
[[jobs]]
name = "dp"
algorithm = "ring"
bytes = 800_000
ranks = 4
steps = 2
compute = "50us"
[[jobs]]
name = "ep"
operation = "all_to_all"
algorithm = "direct"
bytes = 400_000
first = 4
[[flows]]
kind = "incast"
senders = 3
receiver = 0
bytes = 100_000
[run]
controllers = ["hpcc", "nscc"]
"""


def run(*arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments}: exit code {done.returncode}\n{done.stdout}\n"
                             f"{done.stderr}")
    return done


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.path / name
        path.write_text(text)
        return path

    def test_a_job_file_gives_steps_bandwidth_and_the_flow_level(self):
        out = self.path / "out"
        done = run("run", self.write("job.toml", JOB), "--out", out)
        self.assertIn("dp: ring all_reduce of 0.800 MB over 4 ranks (proven): 2 of 2 steps",
                      done.stdout)
        self.assertIn("Jain of the progress of 2 jobs", done.stdout)
        summary = json.loads((out / "summary.json").read_text())
        for result in summary["runs"]:
            first, second = result["jobs"]
            self.assertEqual(len(first["step_ns"]), 2)
            self.assertGreater(first["median_step_ns"], 50_000)
            self.assertAlmostEqual(first["exposed_ns"], first["median_step_ns"] - 50_000)
            self.assertEqual(first["unfinished_tasks"], 0)
            self.assertLess(second["bus_gbytes_per_s"], 12.5)
            self.assertEqual(result["unfinished"], 0)
        with open(out / "messages.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        # Two steps of a ring of 4, 2 x 3 messages of each rank; 4 x 3 of the other job.
        self.assertEqual([sum(row["job"] == job for row in rows) for job in ("dp", "ep")],
                         [48, 12])
        self.assertEqual(sum(int(row["bytes"]) for row in rows if row["job"] == "dp"),
                         2 * 4 * 6 * 200_000)
        for row in rows:
            self.assertLess(int(row["started_hpcc_ns"]), int(row["arrived_hpcc_ns"]))

    def test_wrong_jobs_are_refused_with_line_and_remedy(self):
        for change, message in (
                (('"ring"', '"rings"'), "no algorithm 'rings' for all_reduce; there are: "),
                (("ranks = 4", "ranks = 9"), "from host 0 on there are 8 NICs, for 9 ranks of 1"),
                (("first = 4", f"nics = {2**31}"), f"two ranks or more, of {2**31} NICs each"),
                (("steps = 2", "step = 2"), "jobs.step: is no key here; there are "),
                (("bytes = 800_000", ""), "bytes: must be the size of a rank's larger buffer"),
                (("first = 4", "hosts = [1, 1]"), "names a host twice")):
            with self.subTest(change):
                done = run("run", self.write("job.toml", JOB.replace(*change)), code=2)
                self.assertIn(message, done.stderr)
                self.assertIn("job.toml:", done.stderr)

    def test_flows_that_wait_for_others(self):
        links = self.write("links.csv", "node_a,node_b,gbps,delay_ns\n" +
                           "".join(f"{host},3,100,1000\n" for host in range(3)))
        flows = self.write("flows.csv", "start_ns,src,dst,bytes,after,think_ns\n"
                           "0,0,1,100000,,\n0,1,2,1000,0,5000\n0,2,0,1000,0-1,\n")
        out = self.path / "out"
        run("run", "--topology", links, "--flows", flows, "--cc", "hpcc", "--out", out)
        with open(out / "flows.csv", newline="") as file:
            first, second, third = csv.DictReader(file)
        # The end of a flow is its acknowledgement, half a round trip after its last byte.
        end = int(first["start_ns"]) + int(first["fct_hpcc_ns"])
        self.assertLess(abs(int(second["start_ns"]) - (end + 5000 - 2000)), 200)
        self.assertGreater(int(third["start_ns"]), int(second["start_ns"]) + 2000)

    def test_diff_says_what_changed(self):
        scenario = self.write("job.toml", JOB)
        for name, more in (("a", []), ("b", []), ("c", ["--set", "hpcc.eta=0.5"])):
            run("run", scenario, "--cc", "hpcc", "--out", self.path / name, *more)
        same = run("diff", self.path / "a", self.path / "b")
        self.assertIn("the same events", same.stdout)
        self.assertIn("figures: 0 of ", same.stdout)
        other = run("diff", self.path / "a", self.path / "c", code=1)
        self.assertIn("jobs.dp.median_step_ns", other.stdout)
        self.assertRegex(other.stdout, r"link \d+>\d+ busy share")
        listed = json.loads(run("diff", self.path / "a", self.path / "c", "--json",
                                code=1).stdout)[0]
        self.assertFalse(listed["identical"])
        self.assertGreater(listed["flows"]["changed"], 0)
        row = next(row for row in listed["figures"]["rows"]
                   if row["name"] == "jobs.dp.median_step_ns")
        self.assertGreater(row["after"]["median"], row["before"]["median"])

    def test_diff_over_seeds_compares_bands(self):
        for name, seeds in (("a", "1..3"), ("b", "4..6")):
            run("run", "spray-incast-16", "--cc", "nscc", "--seeds", seeds, "--out",
                self.path / name)
        done = subprocess.run([PROGRAM, "diff", self.path / "a", self.path / "b", "--json"],
                              capture_output=True, text=True, timeout=60, check=False)
        compared = json.loads(done.stdout)[0]
        self.assertFalse(compared["identical"])
        for row in compared["figures"]["rows"]:  # changed: the bands do not touch
            low, high = row["before"], row["after"]
            self.assertTrue(low["high"] < high["low"] or high["high"] < low["low"], row)
            self.assertEqual(low["seeds"], 3)

    def test_diff_refuses_what_is_no_result(self):
        done = run("diff", self.path, self.path, code=2)
        self.assertIn("has no summary.json and no folder seed_N", done.stderr)
        self.write("summary.json", '{"runs": [{"controller": 7}], "seed": "x"}')
        self.assertIn("summary.json", run("diff", self.path, self.path, code=2).stderr)

    def test_explain_tells_the_life_of_a_flow(self):
        text = run("explain", "3", "incast-16", "--cc", "hpcc").stdout
        self.assertIn("hpcc: flow 3, host", text)
        self.assertIn("arrival rate", text)
        life = json.loads(run("explain", "3", "incast-16", "--cc", "hpcc", "--json").stdout)[0]
        out = self.path / "out"
        run("run", "incast-16", "--cc", "hpcc", "--out", out)
        with open(out / "flows.csv", newline="") as file:
            row = list(csv.DictReader(file))[3]
        self.assertEqual(life["fct_ns"], int(row["fct_hpcc_ns"]))  # the same run
        self.assertEqual(life["data_arrived"], 500)
        self.assertEqual(life["acks"], 500)
        self.assertEqual(sum(life["arrivals"]["bytes"]), 500 * (1000 + 48 + 42))
        last = life["hops"][-1]
        self.assertEqual(last["to"], 0)
        self.assertEqual(last["packets"], 500)
        # What packets waited is what they took longer than the fastest.
        wait = life["delay_ns"]["mean"] - life["delay_ns"]["least"]
        self.assertAlmostEqual(life["delay_ns"]["queued_mean"], wait, delta=1 + wait / 50)

    def test_explain_counts_losses_trims_and_pauses(self):
        lost = json.loads(run("explain", "0", "incast-16", "--cc", "dcqcn-paper", "--set",
                              "switch.pfc=0", "switch.buffer_mb=1", "--json").stdout)[0]
        self.assertGreater(sum(hop["dropped"] for hop in lost["hops"]), 0)
        self.assertGreater(lost["retransmitted"], 0)
        self.assertGreater(lost["naks"], 0)
        trimmed = json.loads(run("explain", "0", "spray-incast-16", "--cc", "nscc",
                                 "--json").stdout)[0]
        trims = sum(hop["trimmed"] for hop in trimmed["hops"])
        self.assertGreater(trims, 0)
        self.assertEqual(trims, trimmed["retransmitted"])
        paused = json.loads(run("explain", "0", "incast-16", "--cc", "none", "--set",
                                "switch.buffer_mb=2", "--json").stdout)[0]
        self.assertGreater(sum(hop["paused_ns"] for hop in paused["hops"]), 0)

    def test_explain_lists_messages_and_refuses_other_flows(self):
        scenario = self.write("job.toml", JOB)
        life = json.loads(run("explain", "3", scenario, "--cc", "hpcc", "--json").stdout)[0]
        self.assertEqual(len(life["messages"]), 12)  # two steps of 2 x 3
        self.assertIn("there is no flow 99", run("explain", "99", scenario, code=2).stderr)
        self.assertIn("set host.fidelity to flow", run("explain", "0", "incast-16", "--fidelity",
                                                       "engine", code=2).stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
