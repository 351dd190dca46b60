#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges over DPDK's net_af_xdp on a veth pair. It needs huge pages, which every DPDK
process of the machine then takes: it runs alone."""
# ctest: serial
import pathlib
import unittest

import dpdk_test

HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


def set_huge_pages(count):
    """How many there are then."""
    try:
        HUGE_PAGES.write_text(f"{count}\n", encoding="ascii")
    except OSError:
        pass
    return HUGE_PAGES.read_text(encoding="ascii")


class AfXdp(dpdk_test.Veth, unittest.TestCase):
    """In copy mode, the only one that a veth has; a frame lies in one buffer of a page."""
    driver = "net_af_xdp"
    link_mtu = 3400

    @classmethod
    def setUpClass(cls):
        before = HUGE_PAGES.read_text(encoding="ascii")
        cls.addClassCleanup(set_huge_pages, before)
        if int(set_huge_pages(220)) < 220:
            raise unittest.SkipTest("no huge pages to be had here")
        super().setUpClass()


class AfXdpAndUdp(AfXdp):
    """The veth, with an XDP program, cuts trains itself."""
    far_device = "roce+udp:w1"


if __name__ == "__main__":
    dpdk_test.main()
