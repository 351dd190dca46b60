#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: serial
"""The tests of rxe_test.py with Debian's own kernel in the guest, unchanged, under QEMU.

Without WEFT_TEST_LONG those of two ports, without the packet scripts and with impairments of RC's
plain messages only.
"""
import os

import guest
import impaired
import machine
import rxe_test
import suite


LONG = bool(os.environ.get("WEFT_TEST_LONG"))


class OverUdp(rxe_test.OverUdp):
    machine = machine.STOCK
    if not LONG:
        test_scripts = None
        vars().update(dict.fromkeys(impaired.TESTS_OF_EVERY_SERVICE))


class OverAfPacket(rxe_test.OverAfPacket):
    machine = machine.STOCK


if LONG:
    class OverAfXdp(rxe_test.OverAfXdp):
        machine = machine.STOCK

    class OverUdpAndIpv6(rxe_test.OverUdpAndIpv6):
        machine = machine.STOCK

    class OverUdpAndIbverbs(rxe_test.OverUdpAndIbverbs):
        machine = machine.STOCK


def main():
    reason = rxe_test.why_not(machine.STOCK)
    if reason:
        suite.skip(reason)
        return
    guest.enter_namespaces()
    suite.run()


if __name__ == "__main__":
    main()
