#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""PyTorch over weft: the process group "weft" against plain references (torch_ranks.py), its
failures, and DistributedDataParallel with the same losses as over Gloo.

Arguments are those of unittest. Needs python3-torch, libtorch-dev and pybind11-dev at build.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import af_packet_test
import suite

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", SOURCE / "build/release"))
PACKAGES = BUILD / "lib/python"
LIMIT_S = 240


def environment(device=None, **more):
    env = dict(os.environ, PYTHONPATH=str(PACKAGES), OMP_NUM_THREADS="1", **more)
    env.pop("WEFT_DEVICE", None)
    if device:
        env["WEFT_DEVICE"] = device
    return env


class Torch(unittest.TestCase):
    def start(self, case, environments, before=((),) * 3):
        """Runs the case on a rank for each environment, with these words before its command.
        (Exit code, text) of each."""
        with tempfile.TemporaryDirectory() as scratch:
            started = [subprocess.Popen(
                [*before[rank], sys.executable, str(HERE / "torch_ranks.py"), case, str(rank),
                 str(len(environments)), f"{scratch}/meeting"], env=env, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                for rank, env in enumerate(environments)]
            try:
                said = [process.communicate(timeout=LIMIT_S)[0] for process in started]
            finally:
                for process in started:
                    process.kill()
            return [(process.wait(), text) for process, text in zip(started, said)]

    def ranks(self, case, ranks=2, device=None, killed=()):
        """Those in `killed` end by a signal, the others well."""
        for rank, (ended, text) in enumerate(self.start(case, [environment(device)] * ranks)):
            good = ended < 0 if rank in killed else ended == 0
            self.assertTrue(good, f"{case}: rank {rank} ended with {ended}:\n{text}")

    def test_operations_of_two_ranks(self):
        self.ranks("reductions,movements,all_to_alls,transfers,works,refusals,again")

    def test_operations_of_three_ranks_over_udp(self):
        self.ranks("reductions,movements,all_to_alls,transfers,works,groups", 3, "roce+udp:lo")

    def test_one_rank_alone(self):
        self.ranks("reductions,movements,all_to_alls,works,groups", 1)

    def test_over_srd(self):
        self.ranks("reductions,transfers", 2, f"srd+shm:torch{os.getpid()}")

    def test_a_rank_dies(self):
        self.ranks("death", 3, killed=(1,))

    def test_a_rank_is_late(self):
        self.ranks("lateness")

    def test_ranks_disagree(self):
        self.ranks("mismatch")

    def test_a_rank_leaves(self):
        self.ranks("leaving")

    def test_callbacks_that_call_the_group(self):
        self.ranks("power_sgd,last_reference")

    def test_a_program_forks(self):
        self.ranks("forked")

    def test_groups_have_dumps_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = self.start("names", [environment(WEFT_COLLECTIVE_DUMP=f"{folder}/d")] * 2)
            self.assertEqual([code for code, _ in ended], [0, 0], ended)
            groups = [path.name.split(".")[1] for path in pathlib.Path(folder).iterdir()]
            self.assertEqual(sorted(groups.count(group) for group in set(groups)), [2, 2], groups)

    def test_a_rank_that_cannot_join(self):
        """The other ranks report its message, and do not wait for the limit."""
        nowhere = environment("roce+udp:no-such-interface")
        for code, text in self.start("works", [environment("roce+udp:lo"), nowhere]):
            self.assertNotEqual(code, 0, text)
            self.assertIn("no-such-interface", text)
            self.assertNotIn("in time", text)

    def test_a_program_ends(self):
        for ended, text in self.start("exiting", [environment()] * 2):
            self.assertEqual(ended, 3, text)

    def test_a_device_for_some_ranks_only(self):
        for _, text in self.start("works", [environment(), environment("roce+udp:lo")]):
            self.assertIn("WEFT_DEVICE is set for rank 1 but not for rank 0", text)

    def test_two_hosts(self):
        """Network namespaces stand for hosts: udp, from the address towards rank 0."""
        if os.geteuid() != 0:
            self.skipTest("a network namespace with a veth needs root")
        holder = af_packet_test.add_namespace(type(self))
        af_packet_test.add_veth(type(self), holder, "torch")
        before = ((), af_packet_test.far(holder))
        lost = self.start("works", [environment()] * 2, before)
        for _, text in lost:
            self.assertIn("the ranks are on several hosts", text)
        found = self.start("reductions,transfers",
                           [environment(MASTER_ADDR=af_packet_test.CLOSE)] * 2, before)
        for ended, text in found:
            self.assertEqual(ended, 0, text)

    def losses(self, backend, ranks):
        done = subprocess.run(
            [sys.executable, str(SOURCE / "examples/ddp.py"), "--backend", backend, "--ranks",
             str(ranks), "--steps", "15"], env=environment(), text=True, capture_output=True,
            timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", done.stdout)]
        self.assertEqual(len(losses), 15, done.stdout)
        return losses

    def test_training_over_two_ranks_is_that_over_gloo_to_the_bit(self):
        losses = self.losses("weft", 2)
        self.assertEqual(losses, self.losses("gloo", 2))
        self.assertLess(losses[-1], losses[0])

    def test_training_over_four_ranks_is_that_over_gloo(self):
        """Sums of four are rounded in another order: a few units in the last place of fp32, which
        15 steps may enlarge."""
        for weft, gloo in zip(self.losses("weft", 4), self.losses("gloo", 4)):
            self.assertAlmostEqual(weft, gloo, delta=1e-5 * abs(gloo))


if __name__ == "__main__":
    if not list(PACKAGES.glob("weft_torch/_weft_torch*.so")):
        suite.skip("built without PyTorch 1.13 (python3-torch, libtorch-dev, pybind11-dev), by "
                   "clang, or with sanitizers")
        sys.exit(0)
    suite.run()
