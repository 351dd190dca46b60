#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Wireshark reads selective acknowledgements: crafted ones have their fields where lib/wire/SACK.md
says, and those of a connection that loses packets decode with lib/wire/sack.lua."""
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "lib/wire/sack.lua"
LIMIT = 120
PSNS = 1 << 24
FIELDS = ("weft_sack.destination", "weft_sack.psn", "weft_sack.syndrome", "weft_sack.msn",
          "weft_sack.expected", "weft_sack.lost_end", "weft_sack.held", "weft_sack.held_count",
          "weft_sack.malformed")


def decode(file, *more):
    """The fields of each packet that is a selective acknowledgement, as lists of text."""
    command = ["tshark", "-X", f"lua_script:{SCRIPT}", "-r", str(file), "-Y", "weft_sack",
               "-T", "fields"]
    for field in (*FIELDS, *more):
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def raw_capture(file, payloads, port=4791):
    """A capture of IPv4 packets with these UDP payloads."""
    with open(file, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for payload in payloads:
            udp = struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                             bytes((127, 0, 0, 1)), bytes((127, 0, 0, 2)))
            out.write(struct.pack("<IIII", 0, 0, len(ip + udp), len(ip + udp)) + ip + udp)


def acknowledgement(bitmap, expected, lost_end, opcode=0xC0):
    pad = -len(bitmap) % 4
    psn = (expected - 1) % PSNS
    return (struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, 0xABCDEF, psn) +
            struct.pack(">III", 0x1F << 24 | 7, expected, lost_end) + bitmap + bytes(pad + 4))


class SackDissector(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "run.pcap"

    def test_fields_are_where_the_document_says(self):
        raw_capture(self.file, [
            acknowledgement(b"\x0a\x80", 0xFFFFFE, 1),  # over the wrap
            acknowledgement(b"", 9, 9),
            acknowledgement(b"\xff", 9, 9, opcode=0x11),  # an ordinary one
            acknowledgement(b"", 9, 9)[:20],
        ])
        first, second, short = decode(self.file)
        self.assertEqual(first, ["0xabcdef", str(0xFFFFFD), "0x1f", "7", str(0xFFFFFE), "1",
                                 f"{0xFFFFFF},1,13", "3", ""])
        self.assertEqual(second[4:], ["9", "9", "", "0", ""])
        self.assertEqual(short, [""] * 8 + ["1"])

    def test_other_ports_are_left_alone(self):
        raw_capture(self.file, [acknowledgement(b"\x0a", 5, 6)], port=4795)
        self.assertEqual(decode(self.file), [])

    def test_a_connection_that_loses_packets_decodes(self):
        with socket.socket() as s:
            s.bind(("", 0))
            port = str(s.getsockname()[1])
        command = [str(BIN / "weft_write_bw"), "-p", port, "-n", "200", "-s", "65536"]
        server = subprocess.Popen([*command, "-d", f"roce+udp:lo,fault.loss=0.02,"
                                   f"fault.direction=rx,pcap={self.file}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(server.kill)
        client = subprocess.run([*command, "-d", "roce+udp:lo", "--connect_wait", "20",
                                 "127.0.0.1"], capture_output=True, text=True, timeout=LIMIT,
                                check=False)
        said, _ = server.communicate(timeout=LIMIT)
        self.assertEqual((client.returncode, server.returncode), (0, 0),
                         client.stdout + client.stderr + said)
        seen = decode(self.file)
        self.assertGreater(len(seen), 0, "2 % were lost, and no selective acknowledgement was sent")
        for _, psn, _, _, expected, lost_end, held, count, malformed in seen:
            self.assertEqual(malformed, "")
            self.assertLess((int(expected) - int(psn)) % PSNS, PSNS // 2)
            behind = (int(lost_end) - int(expected) + PSNS // 2) % PSNS - PSNS // 2
            self.assertLess(abs(behind), 8192)  # before `expected`: nothing more is lost
            psns = [int(one) for one in held.split(",") if one]
            self.assertEqual(len(psns), int(count))
            for one in psns:  # the first one is missing
                self.assertTrue(0 < (one - int(expected)) % PSNS < 8192, (expected, one))


if __name__ == "__main__":
    unittest.main()
