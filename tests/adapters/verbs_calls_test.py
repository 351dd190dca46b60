#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each call of libibverbs.so.1: its effects, its errors and its events, over UDP and shared memory.
verbs_calls is a program of verbs only; weft-run gives it the drop-in libraries."""
import unittest

import drop_in

PROGRAM = drop_in.BUILD / "bin/verbs_calls"


class VerbsCalls(unittest.TestCase):
    def calls(self, case):
        for device in (drop_in.UDP, drop_in.SHM):
            with self.subTest(device=device):
                drop_in.succeed(PROGRAM, case, device=device)

    def test_every_operation_moves_its_data(self):
        self.calls("opcodes")

    def test_refusals_have_the_errno_of_the_manual(self):
        self.calls("errors")

    def test_events_and_their_acknowledgement(self):
        self.calls("events")

    def test_regions_of_all_kinds(self):
        self.calls("memory")


if __name__ == "__main__":
    drop_in.main()
