#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""The tests of rxe_test.py with Debian's own kernel in the guest, unchanged, under QEMU."""
import unittest

import guest
import machine
import rxe_test


class OverUdp(rxe_test.OverUdp):
    machine = machine.STOCK


class OverAfPacket(rxe_test.OverAfPacket):
    machine = machine.STOCK


def main():
    reason = rxe_test.why_not(machine.STOCK)
    if reason:
        print(f"SKIPPED: interop/stock_test: {reason}")
        return
    guest.enter_namespaces()
    unittest.main()


if __name__ == "__main__":
    main()
