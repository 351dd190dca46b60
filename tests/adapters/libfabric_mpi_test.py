#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Open MPI over the provider weft of libfabric: messages by mtl/ofi, one-sided calls by
btl/ofi. mpi_data.c compares every byte."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import drop_in

PROVIDERS = drop_in.BUILD / "lib/libfabric"
SOURCE = pathlib.Path(__file__).resolve().parent / "mpi_data.c"
MESSAGES = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include",
            "weft"]
ONE_SIDED = ["--mca", "osc", "rdma", "--mca", "btl", "self,ofi", "--mca",
             "btl_ofi_provider_include", "weft"]
ROOT = {f"OMPI_ALLOW_RUN_AS_ROOT{more}": "1" for more in ("", "_CONFIRM")}


class OpenMpi(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-mpi-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.program = self.folder / "mpi_data"
        built = subprocess.run(["mpicc.openmpi", "-O1", SOURCE, "-o", self.program],
                               capture_output=True, text=True, timeout=60, check=False)
        if built.returncode != 0:
            self.skipTest(f"mpicc.openmpi finds no MPI: {built.stderr[:200]}")

    def check(self, device, ranks, *options):
        words = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", *MESSAGES, *options,
                 "-n", ranks, self.program]
        process = drop_in.Process(words, launcher=None, variables={
            "FI_PROVIDER_PATH": str(PROVIDERS), "WEFT_DEVICE": device, **ROOT})
        try:
            self.assertEqual(process.wait(), 0, process.output())
            self.assertIn(f"{ranks} ranks: all data as it should be\n", process.output())
        finally:
            process.close()

    def test_two_ranks_over_udp(self):
        self.check("srd+udp:lo", 2, "--mca", "osc", "pt2pt")

    def test_two_ranks_with_loss(self):
        self.check("srd+udp:lo,fault.loss=0.01,fault.seed=3", 2, "--mca", "osc", "pt2pt")

    def test_four_ranks_over_shared_memory(self):
        self.check(f"srd+shm:mpi-{os.getpid()}", 4, "--mca", "osc", "pt2pt")

    def test_one_sided_calls_by_rma_and_atomics(self):
        self.check("srd+udp:lo", 2, *ONE_SIDED)


if __name__ == "__main__":
    if not (PROVIDERS / "libweft-fi.so").exists():
        drop_in.suite.skip("built without libfabric-dev, or with sanitizers")
    else:
        drop_in.main("mpicc.openmpi", "mpirun.openmpi")
