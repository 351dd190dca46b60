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

    def test_live_end(self):
        """All that needs no virtual time, in real time: weft's device as the end, over udp."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with subprocess.Popen([BIN / "weft_puppet", str(port)]) as puppet:
            try:
                done = self.run_live(port)
            finally:
                puppet.kill()
        told = json.loads(done.stdout)
        failed = [f"{row['script']}: {row['why']}" for row in told["scripts"]
                  if row["verdict"] == "FAILED"]
        self.assertEqual(failed, [])
        self.assertGreater(told["passed"], 130)

    def run_live(self, port):
        for _ in range(50):
            done = subprocess.run(
                [PROGRAM, "run", HERE, "--psn", "0xfffffa", "--json", "--end", f"127.0.0.1:{port}",
                 "--end-device", "roce+udp:lo"], capture_output=True, text=True, timeout=300,
                check=False)
            if "no puppet answers" not in done.stderr:
                break
            time.sleep(0.1)
        return done

    def test_no_live_end(self):
        done = play("qp rc\nwait 1ms\n", "--end", "127.0.0.1:1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no puppet answers at", done.stderr)
        done = play("qp rc\nwait 1ms\n", "--end", "127.0.0.1:1", "--wire", "roce+shm:x")
        self.assertIn("carries no ICRC", done.stderr)


if __name__ == "__main__":
    unittest.main()
