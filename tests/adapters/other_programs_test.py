#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs of Debian that are no part of rdma-core, unmodified, under weft-run: qperf and fio by
rdma_cm, and programs of TCP on rsockets, which rdma-core's librspreload makes of their sockets."""
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import drop_in

PRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so.1"
ADDRESS = "127.0.0.25"
DEVICE = f"roce+udp:{ADDRESS}"
LIMIT_S = 40


def lacks(*programs):
    return unittest.skipIf(drop_in.missing(*programs), drop_in.missing(*programs))


class ByRdmaCm(unittest.TestCase):
    DEVICES = ((DEVICE, ADDRESS), (drop_in.SHM, "127.0.0.1"))

    @lacks("qperf")
    def test_qperf(self):
        """Its server tells its port before it listens."""
        for device, address in self.DEVICES:
            port = drop_in.free_port()
            server = drop_in.Process(["qperf", "-lp", port], device, (), 3 * LIMIT_S)
            try:
                while not drop_in.listens(port):
                    self.assertFalse(server.finished(), server.described())
                    time.sleep(0.01)
                for test in ("rc_lat", "rc_rdma_read_bw"):
                    with self.subTest(device=device, test=test):
                        output = drop_in.succeed(
                            *f"qperf -lp {port} -cm1 -t 1 {address} {test}".split(),
                            device=device, limit=LIMIT_S)
                        self.assertRegex(output, r"(latency|bw) +=")
            finally:
                server.close()

    @lacks("fio")
    def test_fio(self):
        """In processes of their own, as fio has its jobs without --thread. Its connections ask for
        no RNR retries, so the receives of `recv` are deeper than what `send` sends at once."""
        for device, address in self.DEVICES:
            for verb, target in (("write", "write"), ("read", "read"), ("send", "recv")):
                with self.subTest(device=device, verb=verb):
                    self.job(device, address, verb, target)

    def job(self, device, address, verb, target):
        common = ["fio", "--ioengine=rdma", f"--hostname={address}", "--port=7413", "--bs=64k",
                  "--size=1m"]
        server = drop_in.Process([*common, "--name=server", f"--verb={target}", "--rw=read",
                                  "--iodepth=32"], device, (), LIMIT_S)
        try:
            while "waiting for connection" not in server.output():
                self.assertFalse(server.finished(), server.described())
                time.sleep(0.01)
            output = drop_in.succeed(*common, "--name=client", f"--verb={verb}", "--rw=write",
                                     "--iodepth=4", device=device, limit=LIMIT_S)
            self.assertIn("err= 0", output)
            self.assertEqual(server.wait(), 0, server.described())
        finally:
            server.close()


@unittest.skipUnless(pathlib.Path(PRELOAD).exists(), "no librspreload.so.1")
class OnRsockets(unittest.TestCase):
    def server(self, *words):
        return drop_in.Process(words, DEVICE, (), LIMIT_S, {"LD_PRELOAD": PRELOAD})

    def client(self, server, port, *words):
        """Repeats the client until the server listens, by an rsocket: the kernel knows none."""
        while True:
            self.assertFalse(drop_in.listens(port), f"listens by TCP: {server.described()}")
            with open(__file__, encoding="utf-8") as standard_input:
                done = subprocess.run(
                    [drop_in.RUN, "-d", DEVICE, "--", *words], stdin=standard_input,
                    capture_output=True, text=True, timeout=LIMIT_S, check=False,
                    env=drop_in.environment(LD_PRELOAD=PRELOAD))
            if done.returncode == 0:
                return done.stdout
            said = done.stdout + done.stderr
            self.assertRegex(said, "[Rr]efused|unable to connect")
            self.assertFalse(server.finished(), server.described() + said)
            self.assertLess(time.monotonic(), server.until, said)
            time.sleep(0.1)

    @lacks("iperf3")
    def test_iperf3(self):
        for options in ([], ["-R"]):
            with self.subTest(options=options):
                port = drop_in.free_port()
                server = self.server("iperf3", "-s", "-1", "-p", str(port), "-B", ADDRESS)
                try:
                    said = self.client(server, port, "iperf3", "-c", ADDRESS, "-p", str(port), "-n",
                                       "1M", *options)
                    self.assertTrue(re.search(r"receiver\n", said), said)
                    self.assertEqual(server.wait(), 0, server.described())
                finally:
                    server.close()

    @lacks("socat")
    def test_socat(self):
        port = drop_in.free_port()
        """From a file: librspreload's select() does not tell that a pipe has ended."""
        with tempfile.TemporaryDirectory(prefix="weft-rsockets-") as folder:
            received = pathlib.Path(folder, "received")
            server = self.server("socat", "-u", f"TCP-LISTEN:{port},bind={ADDRESS}",
                                 f"CREATE:{received}")
            try:
                self.client(server, port, "socat", "-u", "-", f"TCP:{ADDRESS}:{port}")
                self.assertEqual(server.wait(), 0, server.described())
                self.assertEqual(received.read_text(), pathlib.Path(__file__).read_text())
            finally:
                server.close()

    @lacks("socat", "curl")
    def test_curl(self):
        port = drop_in.free_port()
        with tempfile.TemporaryDirectory(prefix="weft-rsockets-") as folder:
            answer, request = pathlib.Path(folder, "answer"), pathlib.Path(folder, "request")
            answer.write_bytes(b"HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\nover rsockets")
            server = self.server("socat", f"TCP-LISTEN:{port},bind={ADDRESS}",
                                 f"OPEN:{answer},rdonly!!CREATE:{request}")
            try:
                said = self.client(server, port, "curl", "-sS", f"http://{ADDRESS}:{port}/")
                self.assertEqual(said, "over rsockets")
                self.assertEqual(server.wait(), 0, server.described())
                self.assertIn("GET / HTTP", request.read_text())
            finally:
                server.close()


if __name__ == "__main__":
    drop_in.main()
