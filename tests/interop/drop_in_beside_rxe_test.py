#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""WEFT_VERBS_REAL=1 where the kernel has a device: one process lists weft0 and rxe0, and transfers
on both in turns. The system's libibverbs and its driver of rxe are in a link namespace of their
own. weft0 is shared memory: the kernel's rxe has the UDP port of RoCE v2."""
import ibverbs_test
import machine
import suite

RUN = f"WEFT_VERBS_REAL=1 timeout 60 {ibverbs_test.BIN}/weft-run -d roce+shm:beside"


class BesideRxe(ibverbs_test.InGuest):
    def test_both_in_one_process(self):
        said = self.succeed(f"{RUN} {ibverbs_test.BIN}/verbs_calls devices")
        self.assertRegex(said, r"(?m)^weft0 \d+$")
        self.assertRegex(said, r"(?m)^rxe0 \d+$")

    def test_programs_of_libibverbs_use_either(self):
        said = self.succeed(f"{RUN} ibv_devinfo -d weft0", f"{RUN} ibv_devinfo -d rxe0 -v")
        self.assertRegex(said, r"hca_id:\s+weft0")
        self.assertRegex(said, r"hca_id:\s+rxe0")


def main():
    reason = machine.UML.why_not()
    if not reason and not (ibverbs_test.BIN / "verbs_calls").exists():
        reason = "built without libibverbs-dev"
    if reason:
        suite.skip(reason)
        return
    suite.run()


if __name__ == "__main__":
    main()
