#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: realtime
"""Two processes over loopback with `secure=psk`: data arrives as it was sent, who captures the
packets sees no payload, and processes with another secret, or none, are not reached."""
import json
import os
import pathlib
import secrets
import socket
import struct
import subprocess
import tempfile
import unittest
import zlib

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
LIMIT = 120
SRD_PORT = 4795
BASE_HEADER = 32
PROTECTED = 0x04


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return str(s.getsockname()[1])


def udp_payloads(file):
    """Of the packets of SRD in a capture file (LINKTYPE_ETHERNET, IPv4)."""
    data = file.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        _, _, length, _ = struct.unpack(order + "IIII", data[at:at + 16])
        packet = data[at + 16:at + 16 + length]
        at += 16 + length
        udp = 14 + (packet[14] & 15) * 4
        if struct.unpack(">H", packet[udp + 2:udp + 4])[0] == SRD_PORT:
            yield packet[udp + 8:]


class Processes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def secret(self, name):
        file = self.path / name
        file.write_text(secrets.token_hex(32))
        file.chmod(0o600)
        return str(file)

    def run_pair(self, devices, words, secret_files, more=(), server="127.0.0.1"):
        """Exit code and output of server and client, which gets `more`. The rendezvous must be
        `insecure` where the secrets differ: it would refuse."""
        port = free_port()
        ends = []
        for device, secret, name in zip(devices, secret_files, ((), (server,))):
            environment = dict(os.environ, WEFT_SECRET=secret)
            ends.append(subprocess.Popen(
                [str(BIN / words[0]), "-d", device, "-p", port, *words[1:],
                 *((*more, "--connect_wait", "20") + name if name else ())],
                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        outputs = []
        try:
            for end in reversed(ends):
                out, err = end.communicate(timeout=LIMIT)
                outputs.append((end.returncode, out + err))
                if end is ends[1] and end.returncode != 0:
                    ends[0].kill()
        finally:
            for end in ends:
                if end.poll() is None:
                    end.kill()
                    end.communicate()
        return outputs[1], outputs[0]

    def test_operations_deliver_the_right_bytes(self):
        secret = self.secret("one")
        for program, device in (("weft_write_bw", "srd+udp:lo"), ("weft_send_bw", "srd+udp:lo"),
                                ("weft_read_bw", "srd+udp:lo"), ("weft_write_lat", "srd+udp:lo"),
                                ("weft_write_bw", "roce+udp:lo"),
                                ("weft_send_bw", "roce+udp:lo"),
                                ("weft_read_bw", "roce+udp:lo"),
                                ("weft_write_bw", "roce+auto:lo"),
                                ("weft_write_bw", "srd+auto:lo")):
            with self.subTest(program=program, device=device):
                file = self.path / f"{program}-{device[:4]}.json"
                server, client = self.run_pair(
                    (device + ",secure=psk",) * 2,
                    (program, "-n", "200", "--data_validation", "--sizes", "1,8,4096,70001"),
                    (secret, secret), ("--out_json", f"--out_json_file={file}"))
                self.assertEqual(client[0], 0, (server, client))
                self.assertEqual(server[0], 0, (server, client))
                for record in json.loads(file.read_text())["results"]:
                    self.assertEqual(record["mismatched_bytes"], 0)
                    self.assertGreaterEqual(record["verified_bytes"], 200 * record["MsgSize"])

    def test_the_connection_manager_of_roce(self):
        secret = self.secret("one")
        address = f"127.{os.getpid() >> 8 & 127}.{os.getpid() & 255}.11"
        server, client = self.run_pair(
            (f"roce+udp:{address},secure=psk", "roce+udp:lo,secure=psk"),
            ("weft_write_bw", "-R", "-n", "200", "--data_validation"), (secret, secret),
            server=address)
        self.assertEqual((server[0], client[0]), (0, 0), (server, client))

    def test_captures_show_no_payload(self):
        secret = self.secret("one")
        sizes = {}
        for protection in ("none", "psk"):
            file = self.path / f"{protection}.pcap"
            device = f"srd+udp:lo,secure={protection}"
            _, client = self.run_pair((device, f"{device},pcap={file}"),
                                      ("weft_write_bw", "-n", "100", "-s", "4096"),
                                      (secret, secret))
            self.assertEqual(client[0], 0, client)
            bodies, marked, packets = [], 0, 0
            for payload in udp_payloads(file):
                packets += 1
                marked += payload[2] & PROTECTED != 0
                if len(payload) > 4096:
                    bodies.append(payload[BASE_HEADER:])
            self.assertGreaterEqual(len(bodies), 100)
            self.assertEqual(marked, packets if protection == "psk" else 0)
            whole = b"".join(bodies)
            sizes[protection] = len(zlib.compress(whole)) / len(whole)
        # What the program writes is regular; what is sealed cannot be told from random bytes.
        self.assertLess(sizes["none"], 0.5)
        self.assertGreater(sizes["psk"], 0.99)

    def test_who_has_another_secret_or_none_is_not_reached(self):
        one, other = self.secret("one"), self.secret("other")
        clear, sealed = "srd+udp:lo,patience_ms=300", "srd+udp:lo,patience_ms=300,secure=psk"
        roce = "roce+udp:lo"
        for devices, secret_files in (((sealed, sealed), (one, other)),
                                      ((sealed, clear), (one, one)),
                                      ((clear, sealed), (one, one)),
                                      ((roce, roce + ",secure=psk"), (one, one))):
            with self.subTest(devices=devices):
                _, client = self.run_pair(devices, ("weft_write_bw", "-n", "10", "--insecure"),
                                          secret_files)
                self.assertNotEqual(client[0], 0)
                self.assertIn("retry_exceeded", client[1].replace(" ", "_"))

    def test_devices_that_cannot_be_protected_say_why(self):
        for device, secret, text in (("srd+udp:lo,secure=psk", "/nonexistent/secret", "secret"),
                                     ("srd+udp:lo,secure=tls", self.secret("one"), "must be psk")):
            run = subprocess.run([str(BIN / "weft_info"), "-d", device],
                                 env=dict(os.environ, WEFT_SECRET=secret), capture_output=True,
                                 text=True, timeout=LIMIT)
            self.assertIn(text, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
