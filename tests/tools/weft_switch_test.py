#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_switch between devices of other processes, through real sockets: what crosses it arrives
whole whatever it is told to do to frames, and it says what it did.

Replays nothing at random. WEFT_BUILD names the build directory; the programs are built by the
target `programs`.
"""
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")) / "bin"
HOSTS = ["127.9.77.1", "127.9.77.2"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Switch:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [BIN / "weft_switch", "serve", "--hosts", ",".join(HOSTS), "--mbps", "500", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.text = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.wait_for("commands:")

    def read(self):
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, pattern, after=0, seconds=30):
        until = time.monotonic() + seconds
        while not re.search(pattern, self.text[after:]):
            if time.monotonic() > until or self.process.poll() is not None:
                raise AssertionError(f"no {pattern!r} in:\n{self.text}")
            time.sleep(0.02)

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def end(self):
        """The counters of the last line."""
        self.say("quit")
        code = self.process.wait(timeout=20)
        self.reader.join(timeout=20)
        self.process.stdin.close()
        if code != 0:
            raise AssertionError(f"exit status {code}:\n{self.text}")
        last = self.text.strip().splitlines()[-1]
        return {name: int(value) for name, value in
                re.findall(r"(marked|dropped|faulted|trimmed|strays) (\d+)", last)}

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def device(host, keys=""):
    return f"roce+udp:{HOSTS[host]},udp.switched=1{keys}"


class Transfer:
    """64 messages of 64 KiB from host 1 to host 0, checked at the end."""

    def __init__(self, program="weft_write_bw", keys="", peer_keys=""):
        port = str(free_port())
        common = ["-p", port, "-n", "64", "-s", "65536", "-u", "16", "--data_validation"]
        self.server = subprocess.Popen(
            [BIN / program, "-d", device(0, peer_keys), *common],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.client = subprocess.Popen(
            [BIN / program, "-d", device(1, keys), *common, "--connect_wait", "20", "127.0.0.1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self):
        try:
            for side in self.client, self.server:
                text, _ = side.communicate(timeout=60)
                if side.returncode != 0:
                    raise AssertionError(text)
        finally:
            for side in self.client, self.server:
                if side.poll() is None:
                    side.kill()
                    side.communicate()


class SwitchTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.control = pathlib.Path(self.folder.name) / "control"
        self.switch = Switch("--control", self.control, "--digest-rtt-us", "1000")

    def tearDown(self):
        self.switch.stop()
        self.folder.cleanup()

    def tell(self, command):
        with open(self.control, "w") as fifo:
            fifo.write(command + "\n")

    def test_frames_cross_with_and_without_telemetry(self):
        cc = ",cc_line_mbps=500,cc_rtt_us=1000"
        for keys, peer in (("", ""), (f",cc=hpcc{cc}", ",telemetry=1"),
                           (f",cc=hpcc-pint{cc}", ",telemetry=1")):
            with self.subTest(keys):
                Transfer(keys=keys, peer_keys=peer).finish()
        Transfer("weft_read_bw", ",telemetry=1", f",cc=hpcc{cc}").finish()
        counters = self.switch.end()
        self.assertEqual(counters["faulted"], 0)
        self.assertEqual(counters["trimmed"], 0)
        self.assertEqual(counters["strays"], 0)

    def test_what_is_lost_trimmed_and_late_is_made_good(self):
        for command in f"loss {HOSTS[0]} 0.02", f"trim {HOSTS[0]} 0.02", f"delay {HOSTS[1]} 300":
            self.switch.say(command)
        self.switch.wait_for(r"faulted 0 trimmed 0", len(self.switch.text))  # it has read them
        Transfer().finish()
        counters = self.switch.end()
        self.assertGreater(counters["faulted"], 0)
        self.assertGreater(counters["trimmed"], 0)

    def test_a_blackhole_is_healed_while_a_transfer_waits(self):
        self.tell(f"blackhole {HOSTS[0]}")
        self.switch.wait_for(r"strays", len(self.switch.text))
        transfer = Transfer()
        self.switch.wait_for(r"faulted [1-9]")
        self.tell(f"heal {HOSTS[0]}")
        transfer.finish()
        self.switch.end()
        self.assertFalse(self.control.exists())

    def test_wrong_commands_say_what_is_right(self):
        for command, answer in ((f"losss {HOSTS[0]} 0.1", "commands: blackhole HOST"),
                                (f"loss {HOSTS[0]} 2", "loss HOST SHARE"),
                                ("loss 127.9.77.9 0.1", f"there are {' '.join(HOSTS)}")):
            before = len(self.switch.text)
            self.switch.say(command)
            self.switch.wait_for(re.escape(answer), before)
        self.assertEqual(self.switch.end()["faulted"], 0)


if __name__ == "__main__":
    unittest.main()
