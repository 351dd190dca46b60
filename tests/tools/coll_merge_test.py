#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""What weft_coll merge says of the dumps of ranks: of dumps made here, where the truth is known,
and of runs in which a rank is late, dies, calls something else, or sends slowly."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin/weft_coll"
LIMIT = 120
RANKS = 4
MS = 1_000_000


def run(*words, **variables):
    done = subprocess.run([str(PROGRAM), *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT, env={**os.environ, **variables}, check=False)
    return done.returncode, done.stdout, done.stderr


def operation(sequence, issued, ended, call="all_reduce #{} (16 fp32, sum, direct)", state="done"):
    times = {} if ended is None else {"ended_ns": ended}
    return {"sequence": sequence, "call": call.format(sequence), "blocks": 0, "bytes": 64,
            "state": state, "issued_ns": issued, "started_ns": issued, "predicted_ns": 0, **times}


def made_dumps():
    """Ten operations, 10 ms apart, of 1 ms each; every rank sends a piece of 64 bytes to every
    other one, which has it 100 us later."""
    dumps = []
    for rank in range(RANKS):
        dumps.append({"weft_collective_dump": 1, "communicator": "0", "rank": rank, "ranks": RANKS,
                      "members": [], "host": "one", "pid": rank, "time_ns": 0, "failure": None,
                      "awaits": [], "operations_dropped": 0, "operations": [], "steps_dropped": 0,
                      "steps": []})
        for sequence in range(1, 11):
            begin = 10 * MS * sequence
            dumps[rank]["operations"].append(operation(sequence, begin, begin + MS))
            for peer in range(RANKS):
                if peer != rank:
                    dumps[rank]["steps"].append([sequence, 1, peer, sequence, 64, begin])
                    dumps[rank]["steps"].append([sequence, 0, peer, sequence, 64, begin + MS // 10])
    return dumps


class Made(unittest.TestCase):
    """Dumps that were never a run's."""

    def merged(self, dumps, *words):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, dump in enumerate(dumps):
                files.append(pathlib.Path(folder) / str(number))
                files[-1].write_text(json.dumps(dump), encoding="utf-8")
            code, out, err = run("merge", *files, *words)
        self.assertEqual(code, 0, err)
        return json.loads(out) if "--json" in words else out

    def test_nothing_is_wrong_with_what_is_right(self):
        said = self.merged(made_dumps(), "--json")
        self.assertEqual((said["mismatch"], said["absence"], said["missing"]), (None, None, []))
        self.assertFalse(said["late"]["verdict"])
        self.assertFalse(said["link"]["verdict"])
        self.assertEqual(said["link"]["pieces"], 10)
        self.assertEqual(said["link"]["median_ns"], MS // 10)
        text = self.merged(made_dumps())
        self.assertIn("first mismatch: none", text)
        self.assertIn("late rank:      none", text)

    def test_the_late_rank_is_named(self):
        dumps = made_dumps()
        for own in dumps[2]["operations"][:7]:
            own["issued_ns"] += 2 * MS
            own["started_ns"] += 2 * MS
            for dump in dumps:
                dump["operations"][own["sequence"] - 1]["ended_ns"] += 2 * MS
        said = self.merged(dumps, "--json")["late"]
        self.assertEqual((said["verdict"], said["rank"], said["times"]), (True, 2, 7))
        self.assertEqual((said["operations"], said["median_ns"]), (10, 2 * MS))
        self.assertAlmostEqual(said["share"], 14 / (7 * 3 + 3), 6)
        self.assertIn("late rank:      rank 2", self.merged(dumps))

    def test_who_waits_for_the_late_is_not_late(self):
        # Rank 2 ends an operation late, and all of them go on when they have ended it.
        dumps = made_dumps()
        for dump in dumps:
            dump["operations"][3]["ended_ns"] += 5 * MS
        self.assertFalse(self.merged(dumps, "--json")["late"]["verdict"])

    def test_a_rank_that_comes_early_makes_no_other_late(self):
        dumps = made_dumps()
        for own in dumps[0]["operations"]:
            own["issued_ns"] -= 5 * MS
            own["started_ns"] -= 5 * MS
        self.assertFalse(self.merged(dumps, "--json")["late"]["verdict"])

    def test_the_slow_link_is_named(self):
        dumps = made_dumps()
        for step in dumps[3]["steps"]:
            if step[1] == 0 and step[2] == 1:
                step[5] += MS // 2
        said = self.merged(dumps, "--json")["link"]
        self.assertEqual((said["verdict"], said["from"], said["to"]), (True, 1, 3))
        self.assertEqual((said["median_ns"], said["others_ns"]), (6 * MS // 10, MS // 10))
        self.assertIn("slow link:      1 -> 3", self.merged(dumps))

    def test_pieces_of_two_classes_are_told_apart(self):
        # Each class counts its pieces: class 0 has the same, in exchanges half a second before.
        dumps = made_dumps()
        for dump in dumps:
            dump["steps"] = ([step + [3] for step in dump["steps"]] +
                             [[0, *step[1:5], step[5] - 500 * MS, 0] for step in dump["steps"]])
        said = self.merged(dumps, "--json")["link"]
        self.assertEqual((said["pieces"], said["median_ns"]), (20, MS // 10))
        for dump in dumps:  # what one class has sent, and another one has got, is no piece
            dump["steps"] = [step for step in dump["steps"] if (step[1] == 1) == (step[6] == 0)]
        self.assertIsNone(self.merged(dumps, "--json")["link"])

    def test_a_receiver_that_comes_late_is_no_slow_link(self):
        dumps = made_dumps()
        for own in dumps[3]["operations"]:
            own["started_ns"] += 5 * MS
        for step in dumps[3]["steps"]:
            step[5] += 5 * MS if step[1] == 0 else 0
        self.assertFalse(self.merged(dumps, "--json")["link"]["verdict"])

    def test_the_first_call_that_differs_is_named(self):
        dumps = made_dumps()
        for sequence in (5, 8):
            dumps[1]["operations"][sequence - 1]["call"] = f"broadcast #{sequence} (1 fp32, root 0)"
        said = self.merged(dumps, "--json")["mismatch"]
        self.assertEqual(said["sequence"], 5)
        self.assertEqual(said["calls"][0], {"call": "broadcast #5 (1 fp32, root 0)", "ranks": [1]})
        self.assertEqual(said["calls"][1]["ranks"], [0, 2, 3])
        self.assertIn("first mismatch: rank 1 called broadcast #5", self.merged(dumps))
        dumps = made_dumps()
        dumps[2]["operations"][6]["blocks"] = 1
        self.assertEqual(self.merged(dumps, "--json")["mismatch"]["sequence"], 7)
        self.assertIn("with different counts", self.merged(dumps))

    def test_who_has_not_come_is_named(self):
        dumps = made_dumps()
        for rank in (0, 1, 3):
            dumps[rank]["operations"].append(operation(11, 110 * MS, None, state="running"))
        said = self.merged(dumps, "--json")["absence"]
        self.assertEqual((said["inside"], said["absent"]), ([0, 1, 3], [2]))
        self.assertIn("rank 2 has not called it", self.merged(dumps))
        # A rank that is at work elsewhere has come before, its ring has dropped the call.
        dumps[2]["operations"] = [operation(300, 300 * MS, None, state="running")]
        said = self.merged(dumps, "--json")["absence"]
        self.assertEqual((said["sequence"], said["inside"]), (300, [2]))

    def test_clocks_of_two_hosts_are_brought_together(self):
        dumps = made_dumps()
        for step in dumps[0]["steps"]:
            if step[1] == 0 and step[2] == 3:
                step[5] += MS // 2
        for dump in dumps[2:]:
            dump["host"] = "two"
            for own in dump["operations"]:
                for key in ("issued_ns", "started_ns", "ended_ns"):
                    own[key] += 777 * MS
            for step in dump["steps"]:
                step[5] += 777 * MS
        said = self.merged(dumps, "--json")
        self.assertFalse(said["late"]["verdict"])
        self.assertEqual((said["link"]["from"], said["link"]["to"]), (3, 0))
        self.assertEqual(said["link"]["median_ns"], 6 * MS // 10)
        for dump in dumps:
            dump["steps"] = []
        said = self.merged(dumps, "--json")
        self.assertEqual(said["unknown_clocks"], ["two"])
        self.assertIsNone(said["late"])

    def test_what_is_no_dump_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "file"
            for text in ("", "[]", "{}", '{"weft_collective_dump":"x"}',
                         '{"weft_collective_dump":1}',
                         json.dumps(made_dumps()[0])[:-30]):
                file.write_text(text, encoding="utf-8")
                code, _, err = run("merge", file)
                self.assertEqual(code, 2, text)
                self.assertIn("is no dump of a communicator", err)
            code, _, err = run("merge", file / "none")
            self.assertEqual((code, "cannot read" in err), (2, True))
            file.write_text(json.dumps(made_dumps()[0]), encoding="utf-8")
            code, _, err = run("merge", file, file)
            self.assertEqual((code, "a second dump of rank 0" in err), (2, True))


class Real(unittest.TestCase):
    """Runs of weft_coll."""
    device = f"roce+shm:merge{os.getpid()}"
    few = ("-b", "4K", "-e", "4K", "-n", "10", "-w", "2", "--check", "none", "--algorithm",
           "direct")

    def ranks(self, folder, extra, operation_of=lambda rank: "all_reduce"):
        """Three processes, with words of their own each; their exit codes."""
        processes = [subprocess.Popen([str(PROGRAM), operation_of(rank), *self.few, "--store",
                                       f"file:{folder}/meet", "--dump", f"{folder}/dump",
                                       *extra(rank)], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL,
                                      env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank),
                                           "OMPI_COMM_WORLD_SIZE": "3"}) for rank in range(3)]
        return [process.wait(timeout=LIMIT) for process in processes]

    def merge(self, folder):
        files = sorted(pathlib.Path(folder).glob("dump.0.*"))
        code, out, err = run("merge", *files, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def pieces_meet(self, folder):
        """What one rank has sent the other has received: the same piece, bytes and call."""
        sent, received = {}, {}
        for file in pathlib.Path(folder).glob("dump.0.*"):
            dump = json.loads(file.read_text(encoding="utf-8"))
            self.assertEqual(dump["steps_dropped"], 0)
            for sequence, is_sent, peer, piece, size, *_ in dump["steps"]:
                if is_sent:
                    sent[dump["rank"], peer, piece] = sequence, size
                else:
                    received[peer, dump["rank"], piece] = sequence, size
        self.assertEqual(sent, received)

    def test_a_late_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = run("all_reduce", "-r", "3", "-d", self.device, *self.few, "--late",
                                 "1", "--dump", f"{folder}/dump")
            self.assertEqual(code, 0, (out, err))
            said = self.merge(folder)
            self.pieces_meet(folder)
        self.assertEqual((said["late"]["verdict"], said["late"]["rank"]), (True, 1), said)
        self.assertGreaterEqual(said["late"]["times"], 10)
        self.assertGreater(said["late"]["median_ns"], 5 * MS)
        self.assertIsNone(said["mismatch"])
        self.assertGreater(said["link"]["pieces"], 10)

    def test_a_rank_that_dies_leaves_no_dump_and_is_named_by_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _, _ = run("all_reduce", "-r", "3", "-d", self.device, "--kill", "2", "-b", "64K",
                             "-e", "1M", "-f", "16", "-n", "3", "--check", "none", "--dump",
                             f"{folder}/dump")
            self.assertEqual(code, 1)
            said = self.merge(folder)
        self.assertEqual(said["missing"], [2])
        self.assertEqual([failure["rank"] for failure in said["failures"]], [2, 2], said)

    def test_a_call_that_differs(self):
        with tempfile.TemporaryDirectory() as folder:
            codes = self.ranks(folder, lambda rank: ("-d", self.device, "--op",
                                                     "max" if rank == 1 else "sum"))
            self.assertEqual(codes, [1, 1, 1])
            said = self.merge(folder)
        self.assertEqual(said["mismatch"]["sequence"], 1, said)
        self.assertEqual(said["mismatch"]["calls"][0]["ranks"], [1])
        self.assertIn("max", said["mismatch"]["calls"][0]["call"])

    def test_a_rank_whose_packets_are_slow(self):
        slow = "roce+udp:lo,fault.delay_us=20000,fault.direction=tx"
        for _ in range(5):  # on a busy machine ranks that wait for a processor may be slower
            with tempfile.TemporaryDirectory() as folder:
                # Of an all_gather no piece waits for another.
                codes = self.ranks(folder,
                                   lambda rank: ("-d", slow if rank == 2 else "roce+udp:lo"),
                                   lambda rank: "all_gather")
                self.assertEqual(codes, [0, 0, 0])
                said = self.merge(folder)["link"]
            if said["verdict"] and said["from"] == 2:
                return
        self.fail(said)

    def test_totals_for_prometheus(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = run("all_reduce", "-r", "2", "-d", self.device, *self.few,
                                 "--prometheus", f"{folder}/figures")
            self.assertEqual(code, 0, (out, err))
            text = pathlib.Path(f"{folder}/figures.1").read_text(encoding="utf-8")
        values = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        def value(name, more=""):
            return values[f'weft_collective_{name}{{communicator="0",rank="1",ranks="2"{more}}}']

        of_all_reduce = ',operation="all_reduce"'
        # Twice (out of place and in place): 12 calls, one of the times, one of the processor time.
        self.assertEqual(value("operations_total", of_all_reduce), 28)
        self.assertEqual(value("bytes_total", of_all_reduce), 24 * 4096 + 2 * 10 * 8 + 2 * 8)
        self.assertEqual(value("operations_failed_total", of_all_reduce), 0)
        self.assertEqual(value("failed"), 0)
        sent = value("pieces_total", ',direction="sent"')
        self.assertGreater(sent, 24)
        self.assertEqual(sent, value("pieces_total", ',direction="received"'))


if __name__ == "__main__":
    unittest.main()
