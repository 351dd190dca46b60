#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_postmortem: what the flight records of running, killed and failing programs show, and what
its exports look like to tshark and to a reader of JSON."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["WEFT_BUILD"]).resolve() / "bin"
LIMIT = 60


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Postmortem(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.records = self.folder / "records"
        self.environment = {**os.environ, "WEFT_RECORDS": str(self.records)}

    def run_tool(self, *arguments, status=0):
        done = subprocess.run([BIN / "weft_postmortem", *map(str, arguments)], text=True,
                              env=self.environment, capture_output=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def pair(self, device, *arguments, program="weft_write_bw"):
        """Server and client of a measuring program, which send until they are stopped."""
        port = free_port()

        def side(*more):
            # pylint: disable=consider-using-with
            started = subprocess.Popen([BIN / program, "-d", device, "-p", str(port), "-D", "30",
                                        *arguments, *more], env=self.environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(started.communicate)
            self.addCleanup(started.kill)
            return started
        server = side()
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            client = side("127.0.0.1")
            while time.monotonic() < end and client.poll() is None:
                if self.events_of(client.pid) > 1000:
                    return server, client
                time.sleep(0.05)
            time.sleep(0.1)  # the server did not listen yet
        return self.fail(server.communicate()[0])

    def events_of(self, process):
        done = subprocess.run([BIN / "weft_postmortem", "--json", "--alone", "-n", "0",
                               str(process)], text=True, env=self.environment,
                              capture_output=True, timeout=LIMIT, check=False)
        return len(json.loads(done.stdout)["events"]) if done.returncode == 0 else 0

    def test_both_ends_of_a_killed_process(self):
        server, client = self.pair("roce+udp:lo", "-s", "8")
        client.kill()
        client.wait()
        text = self.run_tool(client.pid, "-n", "0")
        self.assertRegex(text, rf"(?m)^1  weft_write_bw, process {client.pid} \(ended\): roce\+udp")
        self.assertRegex(text, rf"(?m)^2  weft_write_bw, process {server.pid} \(runs\): roce\+udp")
        self.assertRegex(text, r"(?m)^\S+  > RC RDMA WRITE Only qp 0x\w{6} psn \d+, \d+ B to 127")
        self.assertRegex(text, r"(?m)^\S+ {20,}< RC RDMA WRITE Only qp 0x\w{6} psn \d+, \d+ B from")
        self.assertRegex(text, r"(?m)^\S+  < RC Acknowledge qp 0x\w{6} psn \d+")
        alone = self.run_tool(client.pid, "--alone")
        self.assertNotIn(str(server.pid), alone)
        # A packet is received after it was sent, on the one clock of both.
        found = json.loads(self.run_tool(client.pid, "-n", "0", "--json"))
        times = {}
        for event in found["events"]:
            match = re.match(r"([<>]) RC RDMA WRITE Only qp (\w+) psn (\d+)", event["event"])
            if match:
                times.setdefault(match.groups()[1:], {})[match[1]] = event["time_ns"]
        both = [each["<"] - each[">"] for each in times.values() if len(each) == 2]
        self.assertGreater(len(both), 100)
        # 10 ms: the time of a burst is read once, and either process may be preempted behind that.
        self.assertGreater(sorted(both)[len(both) // 2], -10_000_000)

    def test_exports(self):
        _, client = self.pair("roce+udp:lo", "-s", "8")
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        capture, trace = self.folder / "a.pcapng", self.folder / "a.json"
        self.run_tool(client.pid, "--pcapng", capture, "--perfetto", trace)
        for path in (capture, trace):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        begins = {e["id"] for e in events if e["ph"] == "s"}
        ends = {e["id"] for e in events if e["ph"] == "f"}
        self.assertGreater(len(begins & ends), 100)
        if shutil.which("tshark") is None:
            self.fail("tshark is not installed: ./dev packages")
        shown = subprocess.run(["tshark", "-r", capture, "-T", "fields", "-e",
                                "infiniband.bth.opcode", "-e", "infiniband.bth.psn"],
                               capture_output=True, text=True, timeout=LIMIT, check=True).stdout
        rows = [row.split("\t") for row in shown.splitlines()]
        self.assertGreater(sum(row[0] == "10" for row in rows), 100)  # RDMA WRITE Only
        self.assertGreater(len({row[1] for row in rows}), 100)

    def test_srd_and_shared_memory(self):
        for device in ("srd+udp:lo", "roce+shm:postmortem"):
            with self.subTest(device=device):
                server, client = self.pair(device, "-s", "64", *(["-c", "SRD"] if "srd" in device
                                                                 else []))
                for side in (server, client):
                    side.kill()
                    side.wait()
                text = self.run_tool(client.pid, "-n", "0")
                name = "SRD write" if "srd" in device else "RC RDMA WRITE Only"
                self.assertRegex(text, rf"(?m)^\S+  > {name} qp ")
                self.assertRegex(text, rf"(?m)^\S+ {{20,}}< {name} qp ")

    def test_a_failed_request_is_named_and_an_orderly_end_leaves_nothing(self):
        server, client = self.pair("roce+udp:lo", "-s", "8", "--qp-timeout", "10")
        server.kill()
        server.wait()
        said = client.communicate(timeout=LIMIT)[0]
        self.assertNotEqual(client.returncode, 0, said)
        self.assertIn("weft_postmortem", said)
        text = self.run_tool(client.pid, "-n", "0")
        self.assertRegex(text, r"request of qp 0x\w{6} failed: retry_exceeded")
        self.assertRegex(text, r"counter timeouts \+\d")
        for record in self.records.iterdir():
            record.unlink()
        server, client = self.pair("roce+udp:lo", "-s", "8")
        for side in (client, server):
            side.send_signal(signal.SIGINT)
        for side in (client, server):
            side.wait(LIMIT)
        self.assertEqual(list(self.records.iterdir()), [])

    def test_what_is_no_record(self):
        wrong = self.folder / "wrong"
        wrong.write_bytes(b"x" * 200_000)
        self.assertIn("is no flight record", self.run_tool(wrong, status=1))
        self.assertIn("has no flight record", self.run_tool("4000000", status=1))
        self.assertIn("no process of this user", self.run_tool())

    def test_a_full_folder(self):
        """A device opens and works where there is no room for a record."""
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        self.records.mkdir(mode=0o700)
        done = subprocess.run(
            ["unshare", "-m", "bash", "-c",
             f"mount -t tmpfs -o size=64k,mode=700 none {self.records} && "
             f"exec {BIN}/weft_cost roce+shm:full 100"],
            env=self.environment, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("200 WRITEs", done.stdout)


if __name__ == "__main__":
    unittest.main()
