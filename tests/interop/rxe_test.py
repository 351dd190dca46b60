#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weft against the kernel's rdma_rxe, on a wire between this machine and a guest.

Every operation in both directions, and every byte compared (exchanges.py). ./dev interop builds the
guest's kernel (kernel.py); without it the test is skipped, aloud.
"""
import pathlib
import unittest

import exchanges
import guest
import kernel


def why_not():
    """What this machine lacks for the test, or None."""
    if not (exchanges.BIN / "verbs_puppet").exists():
        return "libibverbs-dev was missing at build"
    if not pathlib.Path("/dev/net/tun").exists():
        return "no /dev/net/tun"
    if not guest.can_enter_namespaces():
        return "a network namespace needs root"
    try:
        if not kernel.path().exists():
            return "the guest's kernel is not built: ./dev interop builds it"
    except kernel.Missing as missing:
        return str(missing)
    return None


class Rxe(exchanges.Exchanges, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.guest = guest.Guest(kernel.path(), exchanges.BIN / "verbs_puppet")
        cls.addClassCleanup(cls.guest.close)
        weft = exchanges.start_weft(cls, "weft")
        rxe = exchanges.Puppet("rxe", guest.GUEST, guest.GUEST_PORT)
        cls.wire = exchanges.Wire({weft: f"roce+udp:{guest.HOST}", rxe: "rxe0"})


def main():
    reason = why_not()
    if reason:
        print(f"SKIPPED: interop/rxe_test: {reason}")
        return
    guest.enter_namespaces()
    unittest.main()


if __name__ == "__main__":
    main()
