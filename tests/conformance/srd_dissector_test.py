#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Wireshark reads what srd sends: captures of all operations, on a path that loses packets too,
decode with lib/wire/srd.lua without a malformed packet, and the fields add up to what was done."""
import collections
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "lib/wire/srd.lua"
LIMIT = 120
SEND, WRITE, READ_REQUEST, READ_RESPONSE = 1, 2, 3, 4
FETCH_ADD, ATOMIC_RESPONSE, ACKNOWLEDGE, REFUSAL, RAILS, HELLO, WELCOME = 6, 7, 16, 17, 21, 22, 23


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return str(s.getsockname()[1])


def capture(file, operation, *words, faults=""):
    """Captures at the server what one run moves."""
    port = free_port()
    command = [str(BIN / f"weft_{operation}_bw"), "-p", port, *words]
    server = subprocess.Popen([*command, "-d", f"srd+udp:lo,pcap={file}{faults}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        client = subprocess.run([*command, "-d", "srd+udp:lo", "--connect_wait", "20", "127.0.0.1"],
                                capture_output=True, text=True, timeout=LIMIT, check=False)
        said, _ = server.communicate(timeout=LIMIT)
    finally:
        server.kill()
    if client.returncode != 0 or server.returncode != 0:
        raise AssertionError(client.stdout + client.stderr + said)


def decode(file, *fields):
    """The given fields of each packet, as lists of text."""
    command = ["tshark", "-X", f"lua_script:{SCRIPT}", "-r", str(file), "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def raw_capture(file, payloads):
    """A capture of IPv4 packets with these UDP payloads for SRD's port."""
    with open(file, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for payload in payloads:
            udp = struct.pack(">HHHH", 50000, 4795, 8 + len(payload), 0) + payload
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                             bytes((127, 0, 0, 1)), bytes((127, 0, 0, 2)))
            out.write(struct.pack("<IIII", 0, 0, len(ip + udp), len(ip + udp)) + ip + udp)


def packet(opcode, rest=b"", version=2, flags=0, digest=0, detail=0, introduced=0):
    base = struct.pack(">BBBB", opcode, version << 4 | introduced, flags, 3)
    base += bytes((digest, 1, 0, 2))
    base += struct.pack(">IQH", 77, 88, 5) + (9).to_bytes(6, "big") + bytes((detail, 2, 0, 1))
    return base + rest + bytes(4)


class Dissector(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "run.pcap"

    def check(self, operation, size, expected, faults=""):
        capture(self.file, operation, "-n", "200", "-s", str(size), faults=faults)
        packets = decode(self.file, "srd.opcode", "srd.sequence", "srd.source", "srd.payload",
                         "srd.malformed", "_ws.malformed", "srd.version")
        seen = collections.Counter()
        payload = collections.Counter()
        once = set()
        for opcode, sequence, source, data, wrong, malformed, version in packets:
            self.assertEqual((wrong, malformed, version), ("", "", "2"))
            seen[int(opcode)] += 1
            if int(opcode) <= READ_RESPONSE and (source, sequence) not in once:
                once.add((source, sequence))
                payload[int(opcode)] += len(data) // 2
        for opcode in expected:
            self.assertGreater(seen[opcode], 0, f"no packet with opcode {opcode}")
        return payload

    def test_captures_decode(self):
        for faults in ("", ",fault.loss=0.02,fault.dup=0.02"):
            with self.subTest(faults=faults):
                payload = self.check("send", 20001, (SEND, ACKNOWLEDGE), faults)
                self.assertGreaterEqual(payload[SEND], 200 * 20001)
                payload = self.check("write", 20001, (SEND, WRITE, ACKNOWLEDGE), faults)
                self.assertGreaterEqual(payload[WRITE], 200 * 20001)
                payload = self.check("read", 20001, (READ_REQUEST, READ_RESPONSE, ACKNOWLEDGE),
                                     faults)
                self.assertGreaterEqual(payload[READ_RESPONSE], 200 * 20001)
                self.check("atomic", 8, (FETCH_ADD, ATOMIC_RESPONSE, ACKNOWLEDGE), faults)

    def test_fields_are_where_the_document_says(self):
        write = struct.pack(">III", 0xABC, 4096, 1024) + struct.pack(">QI", 1 << 40, 0xFEED)
        ack = struct.pack(">I", 7) + (1 << 33).to_bytes(6, "big")
        ack += struct.pack(">IHBBHI", 1234, 2, 1, 2, 3, 500) + struct.pack(">QQ", 5, 6)
        raw_capture(self.file, [
            packet(WRITE, write + struct.pack(">QII", 99, 55, 44) + b"datadata", flags=0x1A,
                   digest=140),
            packet(ACKNOWLEDGE, ack, detail=141),
            packet(REFUSAL, detail=8),
            packet(20, digest=142, detail=1),
        ])
        first, second, third, fourth = decode(
            self.file, "srd.epoch", "srd.incarnation", "srd.path", "srd.path_sequence",
            "srd.sequence", "srd.destination", "srd.source", "srd.message", "srd.message.length",
            "srd.message.offset", "srd.address", "srd.rkey", "srd.immediate", "srd.payload",
            "srd.ack.echo", "srd.ack.received", "srd.ack.delay", "srd.ack.duplicates",
            "srd.ack.marks", "srd.ack.granted", "srd.ack.bitmap", "srd.queue_key", "srd.reason",
            "srd.wish", "srd.malformed")
        digests = decode(self.file, "srd.digest", "srd.ack.digest")
        self.assertEqual(digests, [["140", ""], ["", "141"], ["", ""], ["142", ""]])
        base = ["77", "0x0000000000000058", "3", "5", "9", "0x010002", "0x020001"]
        self.assertEqual(first[:14], base + [str(0xABC), "4096", "1024", "0x0000010000000000",
                                             "0x0000feed", "0x0000000000000063",
                                             b"datadata".hex()])
        self.assertEqual(second[:7], base)
        self.assertEqual(first[-4:-1], ["0x00000037", "", "44"])
        self.assertEqual(second[14:], ["7", str(1 << 33), "1234", "2", "3", "500",
                                       "0x0000000000000005,0x0000000000000006", "", "", "", ""])
        self.assertEqual((third[-3], third[-1]), ("8", ""))
        self.assertEqual((fourth[:7], fourth[-1]), (base, ""))

    def test_introductions_are_where_the_document_says(self):
        introduction = struct.pack(">QQ", 11, 12) + (13).to_bytes(6, "big") + bytes(2)
        hello = struct.pack(">QQQQ", 21, 22, 23, 24)
        raw_capture(self.file, [packet(10, introduction, introduced=1), packet(HELLO, hello),
                                packet(WELCOME, hello)])
        rows = decode(self.file, "srd.stamp", "srd.process", "srd.first", "srd.hello.stamp",
                      "srd.hello.incarnation", "srd.hello.issued", "srd.malformed")
        self.assertEqual(rows[0], ["11", "0x000000000000000c", "13", "", "", "", ""])
        self.assertEqual(rows[1], ["", "0x0000000000000016", "", "21", "0x0000000000000017", "24",
                                   ""])
        self.assertEqual(rows[1], rows[2])

    def test_addresses_are_where_the_document_says(self):
        mapped = bytes(10) + b"\xff\xff"
        raw_capture(self.file, [
            packet(RAILS, mapped + bytes((10, 0, 0, 1)) + struct.pack(">IBBBB", 0xFEED, 1, 1, 2, 0)
                   + mapped + bytes((10, 1, 0, 1)) + mapped + bytes((10, 2, 0, 1)))])
        [row] = decode(self.file, "srd.rails.primary", "srd.rails.challenge", "srd.rails.answers",
                       "srd.rails.address", "srd.malformed")
        self.assertEqual(row, ["::ffff:10.0.0.1", "0x0000feed", "1",
                               "::ffff:10.1.0.1,::ffff:10.2.0.1", ""])

    def test_a_liveness_request_is_a_base_header_alone(self):
        rest = bytes((0, 0, 0, 1, 0, 2)) + bytes(4) + (5).to_bytes(8, "big") + bytes(12)
        raw_capture(self.file, [bytes((24, version)) + rest for version in (0x20, 0x10)])
        right, wrong = decode(self.file, "srd.opcode", "srd.destination", "srd.liveness.nonce",
                              "srd.malformed")
        self.assertEqual(right, ["24", "0x010002", "0x0000000000000005", ""])
        self.assertNotEqual(wrong[3], "")

    def test_what_is_not_srd_is_called_malformed(self):
        bad = [packet(WRITE, bytes(11)),                          # its headers do not fit
               packet(SEND, bytes(4) + b"data", version=1),
               packet(12),                                        # no such opcode
               packet(ACKNOWLEDGE, bytes(17) + b"\x11" + bytes(6 + 17 * 8)),  # 17 words
               packet(RAILS, bytes(20) + b"\1\0\1\0"),             # an address is missing
               packet(RAILS, bytes(20) + b"\2\0\0\0"),             # another version
               packet(10, b"payload!"),                           # fill carries none
               packet(10, bytes(20), introduced=1),               # its introduction does not fit
               packet(HELLO, bytes(31))]
        raw_capture(self.file, [*bad, packet(SEND, bytes(4) + b"data")])
        marks = [row[0] for row in decode(self.file, "srd.malformed")]
        self.assertEqual([mark != "" for mark in marks], [True] * len(bad) + [False])


if __name__ == "__main__":
    unittest.main()
