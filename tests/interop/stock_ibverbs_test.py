#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: long serial
"""The conformance suite, the measuring programs and the examples of ibverbs_test.py over rxe of
Debian's own kernel, unchanged, under QEMU."""
import unittest

import ibverbs_test
import machine


class Conformance(ibverbs_test.Conformance):
    machine = machine.STOCK


class Programs(ibverbs_test.Programs):
    machine = machine.STOCK


def main():
    reason = machine.STOCK.why_not()
    if reason:
        print(f"SKIPPED: interop/stock_ibverbs_test: {reason}")
        return
    unittest.main()


if __name__ == "__main__":
    main()
