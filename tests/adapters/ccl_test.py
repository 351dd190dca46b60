#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A C program of NCCL's API (ccl_calls.c), compiled with nothing of weft but its header in place of
nccl.h and libweft-ccl, by 2 and 4 processes: operations x types x reductions x in place or not x
sizes, each result compared; groups, streams, communicators; ranks that die or abort."""
import os
import pathlib
import signal
import tempfile
import unittest

import drop_in

FOLDER = pathlib.Path(__file__).resolve().parent
LIBRARIES = drop_in.BUILD / "lib"
LIMIT_S = 120


class Ccl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="weft-ccl-")
        cls.program = pathlib.Path(cls.folder.name, "ccl_calls")
        drop_in.subprocess.run(
            ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", cls.program,
             FOLDER / "ccl_calls.c", f"-I{drop_in.ROOT}/include",
             f"-I{drop_in.ROOT}/include/weft/nccl", f"-L{LIBRARIES}",
             f"-Wl,-rpath,{LIBRARIES}", "-lweft-ccl"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ranks(self, case, ranks, device="roce+udp:lo", killed=None):
        """Runs a case; every rank that is not killed must be done."""
        name = f"{case}-{ranks}-{device.partition(':')[0]}"
        with self.subTest(name):
            processes = [drop_in.Process([self.program, case, rank, ranks,
                                          pathlib.Path(self.folder.name, name)],
                                         limit=LIMIT_S, launcher=None,
                                         variables={"WEFT_DEVICE": device})
                         for rank in range(ranks)]
            try:
                for rank, process in enumerate(processes):
                    code = process.wait()
                    if rank == killed:
                        self.assertEqual(code, -signal.SIGKILL)
                    else:
                        self.assertEqual(code, 0, f"rank {rank}: {process.output()}")
                        self.assertTrue(process.output().endswith("done\n"), process.output())
            finally:
                for process in processes:
                    process.close()

    def test_data(self):
        self.ranks("data", 2)
        self.ranks("data", 4)

    def test_data_over_srd(self):
        self.ranks("data", 2, f"srd+shm:ccl-{os.getpid()}")

    def test_groups(self):
        self.ranks("groups", 2)
        self.ranks("groups", 4)

    def test_communicators(self):
        self.ranks("communicators", 2)
        self.ranks("communicators", 4)

    def test_all_ranks_in_one_process(self):
        self.ranks("threads", 1)
        with self.subTest("four ranks"):
            process = drop_in.Process([self.program, "threads", 0, 4, "none"], launcher=None)
            try:
                self.assertEqual(process.wait(), 0, process.output())
            finally:
                process.close()

    def test_a_rank_dies(self):
        self.ranks("kill", 2, killed=1)
        self.ranks("kill", 4, killed=3)

    def test_a_rank_aborts(self):
        self.ranks("abort", 2)
        self.ranks("abort", 4)


if __name__ == "__main__":
    if drop_in.sanitizer():
        drop_in.suite.skip("a program that is not sanitized cannot load this library")
    elif drop_in.missing("cc"):
        drop_in.suite.skip(drop_in.missing("cc"))
    else:
        drop_in.suite.run()
