#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_script must be able to fail: dialogues that are not true, and texts that are no scripts."""
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

BIN = pathlib.Path(os.environ["WEFT_BUILD"]) / "bin"
PROGRAM = BIN / "weft_script"
HERE = pathlib.Path(__file__).resolve().parent

# Wrong expectations of a script with a valid WRITE, and their messages.
FALSE = {
    '< ACK 1 msn=1': "its psn is +0, not +1",
    '< ACK 0 msn=2': "its msn is 1, not 2",
    '< NAK sequence 0': "it is another kind of acknowledgement",
    '< READ_RESPONSE_ONLY 0': "its opcode differs",
    '< ACK 0\n< ACK 1': "no packet within",
    '': "unexpected packet: ACK 0",
    'nothing 1ms': "unexpected packet: ACK 0",
    '< ACK 0 in 1ms..2ms': "arrived too early",
    '< ACK 0\nmemory @0 "date"': "byte @3 is 0x61, not 0x65",
    '< ACK 0\ndone send': "no completion within",
    '< ACK 0\nstate err': "the state is rts",
    '< ACK 0\ncount rx_packets 2': "rx_packets is 1",
    '< ACK 0\nevent qp_fatal': "there is no event",
    '< ACK 0\npost WRITE @0 "x"': "unexpected packet: WRITE_ONLY 0",
    '< ACK 0\npost WRITE @0 "xy"\n< WRITE_ONLY 0 "xz"': "byte 1 of its payload is 0x79, not 0x7a",
    '< ACK 0\npost WRITE @0 "xy"\n< WRITE_ONLY 0 "x"': "its payload is 2 bytes, not 1",
    '< ACK 0\npost WRITE @0 "x"\n< WRITE_ONLY 0\n> ACK 0 msn=1': "unexpected completion at the end",
    '< ACK 0\npost WRITE @0 "x"\n< WRITE_ONLY 0\n> ACK 0 msn=1\ndone send id=1': "completion is: ",
    '< ACK 0\nreceive 9\n> SEND_ONLY 1\nnothing 1ms': "unexpected completion: receive success",
}
# Invalid lines, and their messages.
NONSENSE = {
    'say hello': "a line begins with qp, >,",
    '> HELLO 0': "expected an opcode",
    '> WRITE_ONLY x': "is no number",
    '> WRITE_ONLY 0 hello=1': "means nothing here",
    '> WRITE_ONLY 0 msn=1': "has no msn",
    '< WRITE_ONLY 0 icrc=1': "can only be sent",
    '> WRITE_ONLY 0 size=1': "can only be expected",
    '> WRITE_ONLY 0 "data': "lacks its closing quote",
    '> WRITE_ONLY 0 hex:0': "no pairs of hex digits",
    '> WRITE_ONLY 0 p1[9..3]': "ends before it begins",
    '> WRITE_ONLY i': "only within repeat",
    '< NAK 0': "a NAK is sequence",
    'wait 5': "is no time",
    'wait 5ms 6ms': "expected the end of the line",
    'done success': "done send, or done receive",
    'done send glorious': "is no status: success,",
    'repeat 3': "this block has no 'end'",
    'repeat 0\nend': "at least once",
    'end': "'end' without any or repeat",
    'any\nwait 1ms\nend': "only lines with '<'",
    'modify away': "is no state: reset, init,",
    'post SING': "posted are SEND",
    'memory 0 "x"': "write a place",
    'memory @2M "x"': "memory has 1048576 bytes",
    'qp rc': "a script has one queue pair",
}


def play(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.script"
        path.write_text(text, encoding="utf-8")
        return subprocess.run([PROGRAM, "run", *options, path], capture_output=True, text=True,
                              timeout=60, check=False)


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300,
                          check=False)


class Responder:
    """`weft_script respond` on weft's own device, on a TCP port that is free."""

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.where = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen([PROGRAM, "respond", "--listen", "127.0.0.1", "--port",
                                         str(self.port)], stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.connect().close()
        return self

    def connect(self):
        for _ in range(100):
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=20)
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError("the responder does not listen")

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Script(unittest.TestCase):
    def test_what_is_not_true_fails(self):
        for lines, why in FALSE.items():
            with self.subTest(lines):
                done = play(f'qp rc\n> WRITE_ONLY 0 A @0 "data"\n{lines}\n')
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(why, done.stdout)
                self.assertIn("0 passed, 1 failed", done.stdout)

    def test_what_is_no_script_is_told_where(self):
        for lines, why in NONSENSE.items():
            with self.subTest(lines):
                done = play(f"# title\nqp rc\n{lines}\n")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(why, done.stderr + done.stdout)
        self.assertRegex(play("qp rc\nwait 1ms\nwait\n").stderr, r"x\.script:3: ")
        self.assertIn("begins with the end's queue pair", play("wait 1ms\n").stderr)

    def test_examples_of_the_manual_are_true(self):
        manual = (HERE.parents[1] / "docs/packet-scripts.md").read_text(encoding="utf-8")
        examples = re.findall(r"(?:^    [^\n]*\n)+", manual, re.M)
        scripts = [text for text in examples if "qp " in text]
        self.assertEqual(len(scripts), 5)
        for text in scripts:
            done = play("\n".join(line[4:] for line in text.splitlines()))
            self.assertEqual(done.returncode, 0, text + done.stdout + done.stderr)

    def test_json(self):
        done = play('qp rc\n> WRITE_ONLY 0 A @0 "data"\n< ACK 0\n', "--json", "--psn", "5,6")
        told = json.loads(done.stdout)
        self.assertEqual((told["passed"], told["failed"]), (1, 0))
        self.assertEqual([row["psn"] for row in told["scripts"]], ["5", "6"])
        self.assertEqual(len(told["scripts"][0]["trace"]), 2)

    def test_against_a_device(self):
        """All that needs no virtual time, in real time: weft's device as the end, over udp."""
        with Responder() as responder, tempfile.TemporaryDirectory() as folder:
            junit = pathlib.Path(folder) / "results.xml"
            done = run("--against", responder.where, "--psn", "0xfffffa", "--json", "--junit",
                       junit)
            suite = xml.etree.ElementTree.parse(junit).getroot()[0]
        told = json.loads(done.stdout)
        failed = [f"{row['script']}: {row['why']}" for row in told["scripts"]
                  if row["verdict"] == "FAILED"]
        self.assertEqual(failed, [])
        self.assertGreater(told["passed"], 170)
        self.assertEqual(int(suite.get("tests")), len(told["scripts"]))
        self.assertEqual(int(suite.get("skipped")), told["skipped"])
        skipped = next(case for case in suite if case.find("skipped") is not None)
        self.assertIn("\n", skipped.find("skipped").get("message"))

    def test_junit_of_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            junit = pathlib.Path(folder) / "results.xml"
            done = play('# roce:C-DUP-24 "<&>\nqp rc\n> WRITE_ONLY 0 A @0 "data"\n< ACK 0 msn=7\n',
                        "--junit", junit, "--psn", "5")
            suite = xml.etree.ElementTree.parse(junit).getroot()[0]
        self.assertEqual(done.returncode, 1)
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("1", "1"))
        failure = suite[0].find("failure")
        self.assertIn('roce:C-DUP-24 "<&>', failure.get("message"))
        self.assertIn("its msn is 1, not 7", failure.get("message"))
        self.assertIn("> WRITE_ONLY 0", failure.text)
        done = play("qp rc\nwait 1ms\n", "--junit", "/nowhere/at/all.xml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/at/all.xml cannot be written", done.stderr)

    def test_a_responder_lends_its_device_only(self):
        with Responder() as responder:
            for _ in range(2):  # one client after the other
                with responder.connect() as client:
                    lines = client.makefile("rw")

                    def ask(command):
                        lines.write(command + "\n")
                        lines.flush()
                        return lines.readline()

                    self.assertIn("error no command shell", ask("shell command=true length=0"))
                    self.assertIn("opens no other device", ask("open device=x memory=1"))
                    self.assertIn("is not 1 to", ask(f"open memory={1 << 40}"))
                    self.assertIn("is not 1 to", ask("open memory=0"))
                    self.assertRegex(ask("open memory=4096"), "^ok gid=")
                    self.assertIn("the memory ends at 4096", ask("peek offset=4000 length=97"))
                    for nonsense in ("", "poke offset=0 hex=zz", "qp type=", "next", "post op=x",
                                     "connect gid=x qpn=1 psn=1 peer_psn=1", "open memory=-1",
                                     "receive count=1 size=18446744073709551615", "peek length=x"):
                        self.assertRegex(ask(nonsense), "^error ", nonsense)

    def test_no_live_end(self):
        done = play("qp rc\nwait 1ms\n", "--end", "127.0.0.1:1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no responder answers at", done.stderr)
        self.assertIn("(TCP port 18520)", run("--against", "127.0.0.77").stderr)
        self.assertIn("(TCP port 9)", run("--against", "[::1]:9").stderr)
        done = play("qp rc\nwait 1ms\n", "--end", "127.0.0.1:1", "--wire", "roce+shm:x")
        self.assertIn("carries no ICRC", done.stderr)


if __name__ == "__main__":
    unittest.main()
