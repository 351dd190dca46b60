#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The measuring programs as a user starts them: every operation with its data compared, JSON that
parses, refusals that say why, and ends that leave no process behind."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
LIMIT = 120


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return str(s.getsockname()[1])


def start(program, *words):
    return subprocess.Popen([str(BIN / program), *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run_pair(program, *words, client_words=()):
    """Exit code and output of server and client."""
    port = free_port()
    server = start(program, "-p", port, *words)
    client = start(program, "-p", port, *words, "--connect_wait", "20", *client_words, "127.0.0.1")
    try:
        client_out, client_err = client.communicate(timeout=LIMIT)
        server_out, server_err = server.communicate(timeout=LIMIT)
    finally:
        for process in (server, client):
            if process.poll() is None:
                process.kill()
    return ((server.returncode, server_out + server_err),
            (client.returncode, client_out + client_err))


class Programs(unittest.TestCase):
    devices = ("roce+udp:lo", f"roce+shm:test{os.getpid()}")
    srd = ("srd+udp:lo", f"srd+shm:test{os.getpid()}")

    def good_pair(self, program, *words):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "out.json"
            server, client = run_pair(program, *words,
                                      client_words=("--out_json", f"--out_json_file={file}"))
            self.assertEqual(client[0], 0, (program, words, client[1], server[1]))
            self.assertEqual(server[0], 0, (program, words, server[1], client[1]))
            return json.loads(file.read_text(encoding="utf-8")), client[1]

    def test_every_operation_delivers_the_right_bytes(self):
        for device in self.devices + self.srd:
            for operation in ("send", "write", "read"):
                for measure in ("bw", "lat"):
                    with self.subTest(device=device, operation=operation, measure=measure):
                        out, text = self.good_pair(
                            f"weft_{operation}_{measure}", "-d", device, "-n", "100",
                            "--data_validation", "--sizes", "1,8,4096,70001")
                        self.assertEqual([r["MsgSize"] for r in out["results"]],
                                         [1, 8, 4096, 70001])
                        self.assertIn("PASSED", text)
                        for record in out["results"]:
                            self.assertEqual(record["mismatched_bytes"], 0)
                            self.assertGreaterEqual(record["verified_bytes"],
                                                    100 * record["MsgSize"])

    def test_atomics_count(self):
        for device in self.devices + self.srd:
            for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
                for program in ("weft_atomic_bw", "weft_atomic_lat"):
                    with self.subTest(device=device, kind=kind, program=program):
                        out, _ = self.good_pair(program, "-d", device, "-n", "300", "-A", kind,
                                                "--data_validation")
                        self.assertEqual(out["results"][0]["mismatched_bytes"], 0)

    def test_options_of_bandwidth(self):
        for words in (("-b",), ("-q", "4"), ("-e",), ("-l", "8", "-t", "64"), ("-N",),
                      ("-D", "0.2"), ("-I", "64", "-s", "32"), ("-t", "1"), ("-m", "256"),
                      ("--buffers", "8"), ("-b", "-q", "2", "--data_validation"),
                      ("-D", "0.2", "-b"), ("--perform_warm_up",), ("-Q", "1"), ("-r", "16")):
            for operation in ("send", "write"):
                with self.subTest(words=words, operation=operation):
                    count = () if "-D" in words else ("-n", "500")
                    size = () if "-s" in words else ("-s", "2000")
                    out, _ = self.good_pair(f"weft_{operation}_bw", *count, *size, *words)
                    record = out["results"][0]
                    self.assertGreater(record["MsgRate"], 0)
                    if count:
                        lanes = 4 if "4" in words else 2 if "2" in words else 1
                        self.assertEqual(record["n_iterations"], 500 * lanes)

    def test_services_that_lose_messages(self):
        for device in self.devices:
            for service, operation, sizes in (("UD", "send", (1, 64, 1024)),
                                              ("UC", "send", (1, 1024, 20000)),
                                              ("UC", "write", (1, 1024, 20000))):
                words = ("-d", device, "-c", service, "--sizes", ",".join(map(str, sizes)))
                with self.subTest(device=device, service=service, operation=operation):
                    out, _ = self.good_pair(f"weft_{operation}_lat", *words, "-n", "200",
                                            "--data_validation")
                    self.assertEqual([r["n_iterations"] for r in out["results"]], [200] * 3)
                    self.assertEqual([r["mismatched_bytes"] for r in out["results"]], [0] * 3)
                    for more in (("-n", "2000"), ("-n", "500", "-b", "-q", "2"), ("-D", "0.2"),
                                 ("-n", "500", "-e", "--perform_warm_up")):
                        out, text = self.good_pair(f"weft_{operation}_bw", *words, *more)
                        self.assertEqual(out["test_info"]["Connection_type"], service)
                        for r in out["results"]:
                            self.assertGreater(r["MsgRate"], 0)
                            self.assertLess(r["lost"], 4 * r["n_iterations"], text)

    def test_shared_receives_and_xrc(self):
        for device in self.devices:
            for operation in ("send", "write", "read", "atomic"):
                for measure in ("bw", "lat"):
                    with self.subTest(device=device, operation=operation, measure=measure):
                        out, _ = self.good_pair(f"weft_{operation}_{measure}", "-d", device, "-c",
                                                "XRC", "-n", "200", "--data_validation")
                        self.assertEqual(out["test_info"]["Connection_type"], "XRC")
                        self.assertEqual(out["results"][0]["mismatched_bytes"], 0)
            for words in (("-c", "XRC", "-q", "3", "-b"), ("--use-srq", "-q", "4"),
                          ("--use-srq", "-b", "-r", "16", "-q", "2"), ("-c", "XRC", "-e"),
                          ("--use-srq", "--data_validation"), ("-c", "UD", "--use-srq")):
                with self.subTest(device=device, words=words):
                    out, _ = self.good_pair("weft_send_bw", "-d", device, "-s", "1000", "-n", "500",
                                            *words)
                    self.assertGreater(out["results"][0]["MsgRate"], 0)

    def test_connections_by_the_connection_manager(self):
        address = f"127.{os.getpid() >> 8 & 127}.{os.getpid() & 255}.9"
        for words in (("weft_write_lat",), ("weft_send_bw", "-q", "3"),
                      ("weft_read_bw", "-q", "2"), ("weft_write_bw", "-c", "UC")):
            with self.subTest(words=words):
                check = () if "UC" in words else ("--data_validation",)
                common = (*words, "-R", "-n", "200", *check)
                server = start(*common, "-d", f"roce+udp:{address}")
                client = start(*common, "-d", "roce+udp:lo", address)
                for process in (client, server):
                    out, err = process.communicate(timeout=LIMIT)
                    self.assertEqual(process.returncode, 0, out + err)

    def test_srd(self):
        out, _ = self.good_pair("weft_send_bw", "-c", "SRD", "-n", "500", "-s", "5000")
        self.assertEqual(out["test_info"]["Device"], "srd+udp:lo")
        for device, paths in ((self.srd[0], "1"), (self.srd[0], "7"), (self.srd[1], "4")):
            for words in (("-n", "500"), ("-D", "0.2", "-b"), ("-n", "300", "-q", "3", "-e"),
                          ("-n", "500", "-l", "8", "-t", "64", "--data_validation")):
                for operation in ("send", "write", "read"):
                    with self.subTest(device=device, paths=paths, words=words, op=operation):
                        out, _ = self.good_pair(f"weft_{operation}_bw", "-d", device, "-c", "SRD",
                                                "--paths", paths, "-s", "3000", *words)
                        info, record = out["test_info"], out["results"][0]
                        self.assertEqual(info["Connection_type"], "SRD")
                        self.assertIn(f"paths={paths}", info["Device"])
                        self.assertGreater(record["MsgRate"], 0)
                        if "-n" in words:
                            lanes = 3 if "-q" in words else 1
                            self.assertEqual(record["n_iterations"], int(words[1]) * lanes)

    def test_paths_are_reported(self):
        out, text = self.good_pair("weft_write_bw", "-c", "SRD", "--paths", "6", "-s", "20000",
                                   "-n", "500", "--paths-report", "-d",
                                   "srd+udp:lo,path_policy=oblivious")
        paths = out["paths"]
        self.assertEqual(len({p["source_port"] for p in paths}), len(paths))
        self.assertIn(len(paths), (5, 6))  # two may have drawn the same port
        self.assertGreaterEqual(sum(p["sent"] for p in paths), 500 * 20000 / 4096)
        for path in paths:
            self.assertGreaterEqual(path["sent"], path["lost"])
            self.assertIn(path["state"], ("good", "slow", "dead", "probing"))
            self.assertRegex(text, rf"{path['source_port']}  {path['state']} ")

    def test_latency_is_consistent(self):
        for words in (("-n", "400"), ("-D", "0.2"), ("-n", "400", "-c", "SRD")):
            with self.subTest(words=words):
                out, _ = self.good_pair("weft_write_lat", "-s", "8", *words)
                r = out["results"][0]
                self.assertLessEqual(r["t_min"], r["t_typical"])
                self.assertLessEqual(r["t_typical"], r["percentile_99"])
                self.assertLessEqual(r["percentile_99"], r["percentile_99.9"])
                self.assertLessEqual(r["percentile_99.9"], r["t_max"])
                self.assertGreater(r["t_min"], 0)

    def test_refusals_say_why(self):
        for words, text in ((("-R", "-d", "srd+udp:lo"), "RC and UC"),
                            (("-c", "UD"), "weft_send_bw"),
                            (("-c", "XRC", "-R"), "RC and UC"),
                            (("--use-srq",), "weft_send_*"),
                            (("-c", "UC", "--data_validation"), "loses nothing"),
                            (("-s", "8", "-a"), "-a"),
                            (("-c", "SRD", "-d", "roce+udp:lo"), "RC, UC, UD and XRC"),
                            (("-c", "RC", "-d", "srd+udp:lo"), "has SRD queue pairs"),
                            (("--paths", "4", "-d", "roce+udp:lo"), "srd devices"),
                            (("--paths", "4", "-d", "srd+udp:lo,paths=8"), "leave one out"),
                            (("--paths-report", "-d", "roce+udp:lo"), "srd devices"),
                            (("--paths", "300", "-c", "SRD"), "--paths"),
                            (("-Q", "10", "-c", "SRD"), "its own completion"),
                            (("-n", "100", "-D", "1"), "exclude")):
            done = subprocess.run([str(BIN / "weft_write_bw"), *words], capture_output=True,
                                  text=True, timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(text, done.stderr, words)
        done = subprocess.run([str(BIN / "weft_write_bw"), "-p", free_port(), "--connect_wait",
                               "0.1", "127.0.0.1"],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no listener at 127.0.0.1:", done.stderr)

    def test_sides_that_disagree_say_where(self):
        port = free_port()
        server = start("weft_write_bw", "-p", port, "-s", "64")
        client = start("weft_write_bw", "-p", port, "-s", "128", "--connect_wait", "20",
                       "127.0.0.1")
        _, client_err = client.communicate(timeout=LIMIT)
        _, server_err = server.communicate(timeout=LIMIT)
        self.assertEqual((client.returncode, server.returncode), (1, 1))
        self.assertIn("sizes is [128] on this side, [64] on the peer", client_err)
        self.assertIn("sizes is [64] on this side, [128] on the peer", server_err)

    def end_by(self, number, victim, survivor_codes, program="weft_write_bw",
               device="roce+udp:lo"):
        """Both sides run for long; one gets a signal; the other must end by itself."""
        port = free_port()
        words = ("-d", device, "-p", port, "-D", "100", "-s", "4096")
        server = start(program, *words)
        client = start(program, *words, "--connect_wait", "20", "127.0.0.1")
        sides = {"server": server, "client": client}
        try:
            time.sleep(2)
            for side in sides.values():
                self.assertIsNone(side.poll(), "ended before the signal")
            sides[victim].send_signal(number)
            begun = time.monotonic()
            for side in sides.values():
                side.communicate(timeout=LIMIT)
            self.assertLess(time.monotonic() - begun, 30)
            survivor = client if victim == "server" else server
            self.assertIn(survivor.returncode, survivor_codes)
        finally:
            for side in sides.values():
                if side.poll() is None:
                    side.kill()
        return sides[victim].returncode

    def test_interrupt_ends_both_sides(self):
        self.assertEqual(self.end_by(signal.SIGINT, "client", (1,)), 130)
        self.assertEqual(self.end_by(signal.SIGINT, "server", (1,)), 130)

    def test_a_killed_side_is_noticed(self):
        self.end_by(signal.SIGKILL, "server", (1,))
        self.end_by(signal.SIGKILL, "client", (1,))
        # One that only waits for the peer's next message has no request that could fail.
        for device in self.devices + self.srd:
            for victim in ("server", "client"):
                with self.subTest(device=device, victim=victim):
                    self.end_by(signal.SIGKILL, victim, (1,), "weft_send_lat", device)

    def test_info_lists_the_devices(self):
        done = subprocess.run([str(BIN / "weft_info"), "--json"], capture_output=True, text=True,
                              timeout=LIMIT, check=True)
        listed = json.loads(done.stdout)
        udp = [d for d in listed if d["device"] == "roce+udp:lo"]
        self.assertEqual(len(udp), 1)
        self.assertTrue(udp[0]["usable"])
        self.assertEqual(udp[0]["attributes"]["port"], "udp")
        xdp, = [d for d in listed if d["device"] == "roce+af_xdp:eth0"]
        if not xdp["usable"]:
            self.assertRegex(xdp["reason"], "there is no interface eth0|run as root|has no address|"
                             "queues, and this port reads one|XDP_SOCKETS|"
                             "built without libxdp: apt-get install libxdp-dev libbpf-dev")
        dpdk, = [d for d in listed if d["device"] == "roce+dpdk:net_null"]
        if not dpdk["usable"]:
            self.assertRegex(dpdk["reason"], "dpdk")
        self.assertNotIn("attributes", xdp, "a list opens nothing that disturbs the interface")
        bad = subprocess.run([str(BIN / "weft_info"), "-d", "roce+nothing"], capture_output=True,
                             text=True, timeout=LIMIT, check=False)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("not usable", bad.stdout)


if __name__ == "__main__":
    if not (BIN / "weft_write_bw").exists():
        print("SKIPPED: conformance/bench_programs_test: bench/ is not built")
        sys.exit(0)
    unittest.main()
