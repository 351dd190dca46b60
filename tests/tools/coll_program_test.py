#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_coll as a user starts it: every operation with its data compared, ranks by itself and from
launchers' variables, a rank that is killed, JSON that parses, and refusals that say why."""
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin/weft_coll"
LIMIT = 120
QUICK = ("-b", "4", "-e", "300K", "-f", "64", "-n", "2", "-w", "1")


LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "OMPI_", "PMI",
             "SLURM_", "MPI_LOCALNRANKS", "WEFT_STORE")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as here:
            here.bind(("::1", 0))
        return True
    except OSError:
        return False


def run(*words, cwd=None, **variables):
    done = subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, timeout=LIMIT,
                          env={**clean_environment(), **variables}, cwd=cwd, check=False)
    return done.returncode, done.stdout, done.stderr


class Coll(unittest.TestCase):
    devices = ("roce+udp:lo", f"roce+shm:coll{os.getpid()}")

    def test_every_operation_is_right(self):
        for device in self.devices:
            for operation in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                              "all_to_all", "all_gather_v", "reduce_scatter_v", "all_to_all_v",
                              "sendrecv", "permute", "barrier", "dispatch", "combine"):
                code, out, err = run(operation, "-r", "3", "-d", device, "--type", "bf16", *QUICK)
                self.assertEqual(code, 0, (device, operation, out, err))
                self.assertIn("# Wrong elements: 0 OK", out)

    def test_words_of_nccl_tests(self):
        code, out, err = run("broadcast_perf", "-b", "8", "-e", "8K", "-i", "4088", "-g", "3", "-d",
                             "half", "-r", "2", "-n", "2", "-w", "1", "-c", "1", "-T", "20", "-a",
                             "1", "-G", "0", "-m", "1", WEFT_DEVICE=self.devices[1])
        self.assertEqual(code, 0, (out, err))
        rows = [line.split() for line in out.splitlines() if line.startswith(" ")]
        self.assertEqual([row[0] for row in rows], ["8", "4096", "8184"])
        self.assertEqual({(row[2], row[4]) for row in rows}, {("fp16", "2")})
        self.assertIn("# Wrong elements: 0 OK", out)
        code, _, err = run("all_reduce_perf", "-g", "2", "-m", "8")
        self.assertEqual(code, 2)
        self.assertIn("-m 8: --agg_iters has no meaning here", err)

    def test_words_of_nccom_test(self):
        for operation, ours in (("allr", "all_reduce"), ("allg", "all_gather"),
                                ("redsct", "reduce_scatter"), ("alltoall", "all_to_all")):
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "out.json"
                code, out, err = run("-r", "2", "-b", "8", "-e", "1KB", "-f", "32", "-n", "2", "-w",
                                     "1", "-d", "bf16", "--check", "all_ones", "--stats", "p99",
                                     "--report-to-json-file", str(file), "--nnodes", "1", operation,
                                     WEFT_DEVICE=self.devices[1])
                self.assertEqual(code, 0, (out, err))
                report = json.loads(file.read_text(encoding="utf-8"))
            self.assertEqual((report["operation"], report["ranks"]), (ours, 2))
            self.assertIn("# Wrong elements: 0 OK", out)

    def test_counts_are_discovered(self):
        code, out, err = run("all_to_all_v", "--discover", "-r", "3", "-d", self.devices[1], *QUICK)
        self.assertEqual(code, 0, (out, err))
        self.assertIn("# Wrong elements: 0 OK", out)

    def test_tokens_go_to_experts_and_back(self):
        for words in (("--experts", "1", "--choices", "3", "--width", "7", "--type", "fp8_e4m3"),
                      ("--experts", "5", "--choices", "1", "--algorithm", "pairwise"),
                      ("--choices", "8", "--width", "300", "--numerics", "any")):
            for operation in ("dispatch", "combine"):
                with tempfile.TemporaryDirectory() as folder:
                    file = pathlib.Path(folder) / "out.json"
                    code, out, err = run(operation, "-r", "3", "-d", self.devices[1], *QUICK,
                                         *words, "--report-to-json-file", str(file))
                    self.assertEqual(code, 0, (operation, words, out, err))
                    report = json.loads(file.read_text(encoding="utf-8"))
                token = report["choices"] * report["width"] * (1 if "7" in words else 4)
                self.assertGreater(report["results"][0]["count"], 0)
                for row in report["results"]:
                    self.assertEqual(row["size"], row["count"] * token)
        code, _, err = run("dispatch", "-r", "2", "-d", self.devices[1], "--choices", "9")
        self.assertEqual(code, 1)
        self.assertIn("a token cannot go to 9 of 8 experts", err)
        code, _, err = run("combine", "-r", "2", "-d", self.devices[1], "--type", "int32")
        self.assertEqual(code, 1)
        self.assertIn("floating", err)

    def test_json_has_every_size(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out.json"
            code, out, err = run("all_to_all", "-r", "2", "-d", self.devices[1], *QUICK,
                                 "--algorithm", "bruck", "--show-algorithm", "--stats", "p50",
                                 "--report-to-json-file", str(file))
            self.assertEqual(code, 0, (out, err))
            report = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual(report["ranks"], 2)
        self.assertEqual([row["size"] for row in report["results"]], [0, 256, 16384])
        head, *table = [line.strip("#").split() for line in out.splitlines()
                        if line.startswith(("#       size", " "))]
        self.assertEqual(head[:5], ["size", "count", "type", "redop", "root"])
        for row, line in zip(report["results"], table, strict=True):
            self.assertEqual((row["type"], row["redop"], row["root"]), ("fp32", "none", -1))
            self.assertEqual(line[:5], [str(row["size"]), str(row["count"]), "fp32", "none", "-1"])
            self.assertEqual(row["in_place"]["wrong"], 0)
            self.assertEqual(row["in_place"]["algorithm"], "bruck")
            self.assertGreaterEqual(row["in_place"]["p99_us"], row["in_place"]["p50_us"])

    def test_operations_without_a_form_in_place_have_one_set_of_columns(self):
        for operation in ("permute", "barrier", "all_to_all_v", "dispatch"):
            code, out, err = run(operation, "-r", "3", "-d", self.devices[1], *QUICK)
            self.assertEqual(code, 0, (operation, out, err))
            head, *table = [line.strip("#").split() for line in out.splitlines()
                            if line.startswith(("#       size", " "))]
            self.assertEqual(head[5:], ["time", "algbw", "busbw", "#wrong"])
            self.assertGreater(len(table), 0)
            for line in table:
                self.assertEqual(len(line), len(head))

    def test_paced_calls_with_background_traffic(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out.json"
            code, out, err = run("all_to_all", "-r", "2", "-d", self.devices[1], "-b", "64K", "-e",
                                 "64K", "-n", "40", "-w", "2", "--class", "0", "--every", "2000",
                                 "--background", "1M", "--report-to-json-file", str(file))
            self.assertEqual(code, 0, (out, err))
            row = json.loads(file.read_text(encoding="utf-8"))["results"][0]
        self.assertIn("# Background calls, in place: ", out)
        self.assertGreater(row["out_of_place"]["background_GBps"], 0)
        self.assertEqual(row["out_of_place"]["beside_GBps"],  # the former key
                         row["out_of_place"]["background_GBps"])
        self.assertGreater(row["out_of_place"]["p99_us"], 0)

    def test_a_trace_has_the_operations_of_every_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trace.json"
            code, out, err = run("all_reduce", "-r", "3", "-d", self.devices[1], *QUICK, "--trace",
                                 str(file))
            self.assertEqual(code, 0, (out, err))
            events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
        steps = [event for event in events if event.get("cat") == "step"]
        self.assertEqual({step["pid"] for step in steps}, {0, 1, 2})
        self.assertTrue(all(step["dur"] >= 0 for step in steps))
        ends = {kind: {event["id"] for event in events if event["ph"] == kind} for kind in "sf"}
        self.assertGreater(len(ends["s"] & ends["f"]), len(steps) // 3)  # arrows have both ends
        bars = [event for event in events if event["ph"] == "X" and event["cat"] == "running"]
        self.assertEqual({bar["pid"] for bar in bars}, {0, 1, 2})
        first = bars[0]["ts"]
        for rank in range(3):  # one after the other, none twice
            own = [bar for bar in bars if bar["pid"] == rank]
            self.assertGreater(sum(bar["name"] == "all_reduce" for bar in own), 10)
            self.assertFalse(any(bar["args"]["failed"] for bar in own))
            self.assertLess(abs(own[0]["ts"] - first), LIMIT * 1e6)  # of one clock
            for before, after in zip(own, own[1:]):
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.002)
                self.assertEqual(before["args"]["sequence"] + 1, after["args"]["sequence"])

    def test_a_failed_operation_is_in_the_traces_of_survivors(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trace.json"
            code, _, _ = run("all_reduce", "-r", "3", "-d", self.devices[1], "--kill", "1", "-b",
                             "64K", "-e", "1M", "-f", "16", "-n", "3", "--check", "none", "--trace",
                             str(file))
            self.assertEqual(code, 1)
            for rank in (0, 2):
                text = pathlib.Path(f"{file}.{rank}").read_text(encoding="utf-8")
                last = json.loads(text)["traceEvents"][-1]
                self.assertTrue(last["args"]["failed"], last)

    def test_ranks_of_a_launcher(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([str(PROGRAM), "all_gather", "-d", self.devices[1], *QUICK,
                                       "--store", f"file:{folder}/meet"],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank),
                                           "OMPI_COMM_WORLD_SIZE": "2"}) for rank in range(2)]
            outputs = [process.communicate(timeout=LIMIT)[0] for process in ranks]
        self.assertEqual([process.returncode for process in ranks], [0, 0], outputs)
        self.assertIn("2 ranks", outputs[0])
        self.assertIn("# Wrong elements: 0 OK", outputs[0])
        self.assertEqual(outputs[1], "")

    def started_by(self, variables, *words):
        """Two ranks with these variables, "%" in which is the rank: their outputs, and what is left
        in the directory for temporary files."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen(
                [str(PROGRAM), "all_gather", "-d", self.devices[1], *QUICK, *words],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**clean_environment(), "TMPDIR": folder,
                     **{name: value.replace("%", str(rank)) for name, value in variables.items()}})
                     for rank in range(2)]
            outputs = [process.communicate(timeout=LIMIT)[0] for process in ranks]
            left = os.listdir(folder)
        return [process.returncode for process in ranks], outputs, left

    def test_launchers_are_known_by_their_variables(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            before = str(free.getsockname()[1] - 1)
        for variables in (
                {"RANK": "%", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": before},
                {"RANK": "%", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",  # two hosts
                 "MASTER_ADDR": "::1", "MASTER_PORT": before},
                {"RANK": "%", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                 "TORCHELASTIC_RUN_ID": "seven"},
                {"OMPI_COMM_WORLD_RANK": "%", "OMPI_COMM_WORLD_SIZE": "2",
                 "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun/12/1"},
                {"SLURM_PROCID": "%", "SLURM_NTASKS": "2", "SLURM_NNODES": "1",
                 "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}):
            if variables.get("MASTER_ADDR") == "::1" and not has_ipv6():
                continue
            with self.subTest(variables=variables):
                codes, outputs, left = self.started_by(variables)
                self.assertEqual(codes, [0, 0], outputs)
                self.assertIn("2 ranks", outputs[0])
                self.assertEqual(outputs[1], "")
                self.assertEqual(left, [])

    def test_a_launcher_without_a_meeting_place(self):
        code, _, err = run("all_reduce", RANK="0", WORLD_SIZE="2")
        self.assertEqual(code, 2)
        self.assertIn("--store", err)
        # These may be on two hosts, which have no directory in common.
        for variables in (
                {"OMPI_COMM_WORLD_RANK": "%", "OMPI_COMM_WORLD_SIZE": "2",
                 "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_NAMESPACE": "prterun/12/1"},
                {"OMPI_COMM_WORLD_RANK": "%", "OMPI_COMM_WORLD_SIZE": "2",
                 "PMIX_NAMESPACE": "prterun/12/1"},
                {"RANK": "%", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
                 "TORCHELASTIC_RUN_ID": "seven"},
                {"PMI_RANK": "%", "PMI_SIZE": "2"},
                {"SLURM_PROCID": "%", "SLURM_NTASKS": "2", "SLURM_NNODES": "2",
                 "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}):
            with self.subTest(variables=variables):
                codes, outputs, left = self.started_by(variables)
                self.assertEqual((codes, left), ([2, 2], []), outputs)
                for output in outputs:
                    self.assertIn("several hosts", output)
                    self.assertIn("--store tcp:HOST:PORT", output)

    def test_a_killed_rank_is_named_by_every_survivor(self):
        code, _, err = run("all_reduce", "-r", "3", "-d", self.devices[0], "--kill", "1",
                           "-b", "64K", "-e", "16M", "-f", "16", "-n", "3", "--check", "none")
        self.assertEqual(code, 1)
        for survivor in (0, 2):
            self.assertIn(f"rank {survivor}: PEER_FAILED: rank 1 failed during all_reduce #", err)

    def test_an_operation_that_there_is_not_is_told_with_all_there_are(self):
        code, _, err = run("all_reduced", "-d", self.devices[0])
        self.assertEqual(code, 2)
        self.assertIn("no operation 'all_reduced'; there are: all_reduce, reduce_scatter, "
                      "all_gather, broadcast, reduce, all_to_all, all_gather_v, reduce_scatter_v, "
                      "all_to_all_v, dispatch, combine, sendrecv, permute, barrier", err)

    def test_wrong_words_are_told_the_right_ones(self):
        for words, hint in ((("all_redcue",), "all_reduce"),
                            (("all_reduce", "--type", "f32"), "bf16"),
                            (("reduce", "--op", "add"), "sum"), (("reduce", "-b", "1X"), "64K"),
                            (("exchange",), "sendrecv, permute, barrier"),
                            (("permute", "--algorithm", "ring"), "has a single algorithm"),
                            (("explain", "barrier"), "barrier has no schedules to explain"),
                            *((("sim", operation, "--topology", "trn2-torus-4x4"),
                               f"sim has no bound for {operation}: it has all_gather")
                              for operation in ("sendrecv", "permute", "barrier", "all_to_all_v")),
                            (("explain", "reduce", "--algorithm", "tree"), "binomial")):
            code, _, err = run(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(hint, err)


if __name__ == "__main__":
    unittest.main()
