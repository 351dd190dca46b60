#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: long serial
"""The conformance suite and all programs and examples of ibverbs_test.py and
ibverbs_programs_test.py over rxe of Debian's own kernel, unchanged, under QEMU; and what befalls
device, peer and address. (That kernel has no siw.)"""

import ibverbs_programs_test
import ibverbs_test
import machine
import suite


class Conformance(ibverbs_test.Conformance):
    machine = machine.STOCK


class Programs(ibverbs_test.Programs):
    machine = machine.STOCK


class OtherPrograms(ibverbs_programs_test.Programs):
    machine = machine.STOCK


class Trouble(ibverbs_test.Trouble):
    machine = machine.STOCK


class Removal(ibverbs_test.Removal):
    machine = machine.STOCK


def main():
    reason = machine.STOCK.why_not()
    if reason:
        suite.skip(reason)
        return
    suite.run()


if __name__ == "__main__":
    main()
