#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_switch as a user starts it: measuring programs talk through it with their data compared,
faults hit and heal on command, the demo runs its table, and a wrong command line says why."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
LIMIT = 120
NET = f"127.{10 + os.getpid() % 200}.{os.getpid() // 200 % 200}"  # of this process alone
HOSTS = [f"{NET}.{i}" for i in (1, 2, 3)]


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return str(s.getsockname()[1])


def start(program, *words):
    return subprocess.Popen([str(BIN / program), *words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Switch:
    """`weft_switch serve`, until the end of the block; `lines` is what it said."""

    def __init__(self, *words):
        self.process = start("weft_switch", "serve", "--hosts", ",".join(HOSTS), *words)
        self.lines = []

    def __enter__(self):
        self.first = self.process.stdout.readline()
        return self

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def __exit__(self, *_):
        out, err = self.process.communicate("quit\n", timeout=LIMIT)
        self.lines = out.splitlines()
        self.errors = err


def transfer(keys=("", ""), *words, provider="roce"):
    """weft_write_bw from host 1 to host 2 through the switch: exit codes and output."""
    port = free_port()
    devices = [f"{provider}+udp:{host},udp.switched=1{extra}" for host, extra in zip(HOSTS, keys)]
    words = ("-p", port, "-s", "65536", "-n", "40", "--data_validation", *words)
    server = start("weft_write_bw", "-d", devices[1], *words)
    client = start("weft_write_bw", "-d", devices[0], *words, "--connect_wait", "20", "127.0.0.1")
    try:
        client_text = "".join(client.communicate(timeout=LIMIT))
        if client.returncode != 0 and server.poll() is None:
            server.kill()
        server_text = "".join(server.communicate(timeout=LIMIT))
    finally:
        for process in (server, client):
            if process.poll() is None:
                process.kill()
    return client.returncode, client_text, server_text


class Program(unittest.TestCase):
    def test_data_crosses_with_and_without_telemetry(self):
        for keys in (("", ""), (",cc=hpcc,cc_rtt_us=1000,cc_line_mbps=1000,cc.min_rate_mbps=10",
                                ",telemetry=1")):
            with self.subTest(keys=keys), Switch("--mbps", "1000") as switch:
                self.assertIn("udp.switched=1", switch.first)
                code, client, server = transfer(keys)
                self.assertEqual(code, 0, client + server)
                self.assertIn("PASSED", client)

    def srd_transfer(self, keys=""):
        """The same over eight paths of `srd`: what each side counted."""
        link = ",cc_rtt_us=10000,cc_line_mbps=200"
        code, client, server = transfer(
            (link + keys, link), "-c", "SRD", "--paths", "8", "--report-counters",
            "--paths-report", provider="srd")
        self.assertEqual(code, 0, client + server)
        self.assertIn("PASSED", client)
        path = re.compile(r"^ +\d+ +\d+ +(?:good|slow|dead|probing) ", re.MULTILINE)
        self.assertEqual(len(path.findall(client)), 8, client)
        counter = re.compile(r"^ (\w+) +(\d+)$", re.MULTILINE)
        return [{name: int(value) for name, value in counter.findall(text)}
                for text in (client, server)]

    def test_srd_crosses_and_sees_marks_cut_packets_and_digests(self):
        with Switch("--mbps", "200", "--kmin-us", "0.1", "--kmax-us", "1", "--pmax", "1",
                    "--digest-rtt-us", "1000") as switch:
            self.assertIn("srd+udp", switch.first)
            sender, receiver = self.srd_transfer()
            self.assertGreater(receiver.get("rx_ecn_marked", 0), 0)
            self.assertEqual(receiver.get("rx_trimmed", 0), 0)
            switch.say("trim " + HOSTS[1] + " 0.02")
            sender, receiver = self.srd_transfer()
            self.assertGreater(receiver.get("rx_trimmed", 0), 0)
            self.assertGreater(sender.get("trim_losses", 0), 0)
            switch.say("heal " + HOSTS[1])
            sender, _ = self.srd_transfer(",cc=hpcc")
            self.assertEqual(sender.get("acks_without_telemetry", 0), 0)

    def test_faults_come_and_go(self):
        with Switch() as switch:
            switch.say("blackhole " + HOSTS[1])
            code, client, _ = transfer(("", ""), "-u", "10")
            self.assertNotEqual(code, 0, client)
            switch.say("heal " + HOSTS[1])
            switch.say("loss " + HOSTS[1] + " 0.01")
            code, client, server = transfer(("", ""), "-u", "12")
            self.assertEqual(code, 0, client + server)
            switch.say("loss 127.0.0.9 0.5")
            switch.say("explode " + HOSTS[1])
        text = "\n".join(switch.lines)
        self.assertRegex(text, r"no host 127\.0\.0\.9; there are " + re.escape(HOSTS[0]))
        self.assertIn("commands: blackhole", text)
        self.assertGreater(int(re.findall(r"faulted (\d+)", text)[-1]), 0)

    def test_what_cannot_be_is_refused(self):
        with Switch():
            again = start("weft_switch", "serve", "--hosts", ",".join(HOSTS))
            _, err = again.communicate(timeout=LIMIT)
            self.assertEqual(again.returncode, 1)
            self.assertIn("belongs to another device", err)
        for words, why in ((("--hosts", "lo,127.0.0.77"), "no loopback address"),
                           (("--hosts", HOSTS[0]), "at least two ports"),
                           (("--port", "127.0.0.9=5"), "no host"),
                           (("--port", "127.9.0.1=x"), "write HOST=MBPS")):
            with self.subTest(words=words):
                process = start("weft_switch", "serve", *words)
                _, err = process.communicate("quit\n", timeout=LIMIT)
                self.assertNotEqual(process.returncode, 0)
                self.assertIn(why, err)

    def test_the_demo_prints_its_table(self):
        process = start("weft_switch", "demo", "--hosts", ",".join(HOSTS), "--runs", "1",
                        "--warm-up", "0.2", "--seconds", "0.3", "--cc", "hpcc,dctcp")
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, out + err)
        rows = [line.split() for line in out.splitlines()[2:]]
        self.assertEqual([row[:2] for row in rows], [["hpcc", "1"], ["dctcp", "1"],
                                                     ["hpcc", "median"], ["dctcp", "median"]])
        for row in rows:
            self.assertGreater(float(row[2]), 0)
            self.assertLessEqual(float(row[2]), 101)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
