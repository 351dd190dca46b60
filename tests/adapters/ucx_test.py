#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""UCX, unmodified, under weft-run: its transports rc_verbs and ud_verbs over weft0, and Open MPI
and MPICH above them. The MPI programs compare every byte."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import drop_in

SOURCE = pathlib.Path(__file__).resolve().parent / "mpi_data.c"
# These transports and no other, over this device and no other.
ONLY = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_NET_DEVICES": "weft0:1"}
# Of UCP, and of the transports themselves.
TESTS = (["tag_lat"], ["tag_bw", "-s", "65536"], ["ucp_put_lat"], ["ucp_get"], ["ucp_fadd"],
         ["stream_lat"], ["am_lat", "-d", "weft0:1", "-x", "rc_verbs"],
         ["put_bw", "-d", "weft0:1", "-x", "rc_verbs"],
         ["am_lat", "-d", "weft0:1", "-x", "ud_verbs"])


class Ucx(unittest.TestCase):
    def test_transports(self):
        output = drop_in.succeed("ucx_info", "-d")
        for transport in ("rc_verbs", "ud_verbs"):
            self.assertRegex(output, rf"Transport: {transport}\n#\s+Device: weft0:1\n")

    def test_measuring_programs(self):
        for device in (drop_in.UDP, drop_in.SHM):
            for test in TESTS:
                with self.subTest(device=device, test=test):
                    self.measure(device, test)

    @staticmethod
    def measure(device, test):
        port = drop_in.free_port()
        words = ["ucx_perftest", "-p", port, "-s", "8", "-n", "50", "-w", "5", "-t", *test]
        _, client = drop_in.pair(words, [*words, "127.0.0.1"], drop_in.at_port(port),
                                 device=device, **ONLY)
        assert "Final:" in client, client


class Mpi(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-mpi-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, compiler, launcher, options):
        if drop_in.missing(compiler, launcher):
            self.skipTest(drop_in.missing(compiler, launcher))
        program = self.folder / "mpi_data"
        built = subprocess.run([compiler, "-O1", SOURCE, "-o", program], capture_output=True,
                               text=True, timeout=60, check=False)
        if built.returncode != 0:
            self.skipTest(f"{compiler} finds no MPI: {built.stderr[:200]}")
        root = {f"OMPI_ALLOW_RUN_AS_ROOT{more}": "1" for more in ("", "_CONFIRM")}
        for device, ranks in ((drop_in.UDP, 2), (drop_in.SHM, 4)):
            with self.subTest(device=device):
                output = drop_in.succeed(launcher, *options, "-n", ranks, program, device=device,
                                         **ONLY, **root)
                self.assertIn(f"{ranks} ranks: all data as it should be\n", output)

    def test_open_mpi(self):
        self.check("mpicc.openmpi", "mpirun.openmpi",
                   ["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ucx", "--mca", "osc",
                    "ucx"])

    def test_mpich(self):
        self.check("mpicc.mpich", "mpiexec.hydra", [])


if __name__ == "__main__":
    drop_in.main("ucx_perftest")
