#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges over AF_XDP on a veth pair: at both ends, and with udp, whose trains and unfinished
checksums a veth hands over, and with af_packet at the other.

The puppet at the far end is asked over the same two interfaces: the kernel's TCP beside AF_XDP."""
import os
import re
import subprocess
import unittest

import af_packet_test
import exchanges
import guest
import suite


class BothAfXdp(af_packet_test.Veth, unittest.TestCase):
    close_device = "roce+af_xdp:w0"
    far_device = "roce+af_xdp:w1"


class Generic(af_packet_test.Veth, unittest.TestCase):
    close_device = "roce+af_xdp:w0,af_xdp.mode=generic"
    far_device = "roce+af_xdp:w1,af_xdp.mode=generic"


class WithUdp(af_packet_test.Veth, unittest.TestCase):
    close_device = "roce+af_xdp:w0"
    far_device = "roce+udp:w1"


class WithAfPacket(af_packet_test.Veth, unittest.TestCase):
    close_device = "roce+af_xdp:w0"
    far_device = "roce+af_packet:w1"


class Chains(af_packet_test.Veth):
    """Packets of 4,096 bytes, each in two buffers."""
    link_mtu = 4500
    mtus = (4096,)

    @classmethod
    def setUpClass(cls):
        if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 6):
            raise unittest.SkipTest("XDP_USE_SG needs Linux 6.6")
        super().setUpClass()


class BothChains(Chains, unittest.TestCase):
    close_device = "roce+af_xdp:w0"
    far_device = "roce+af_xdp:w1"


class GenericChains(Chains, unittest.TestCase):
    close_device = "roce+af_xdp:w0,af_xdp.mode=generic"
    far_device = "roce+af_xdp:w1,af_xdp.mode=generic"


class ChainsWithUdp(Chains, unittest.TestCase):
    close_device = "roce+af_xdp:w0"
    far_device = "roce+udp:w1"


def why_not():
    if not guest.can_enter_namespaces():
        return "a network namespace needs root"
    info = subprocess.run([exchanges.BIN / "weft_info"], capture_output=True, text=True,
                          check=False)
    return "built without libxdp-dev" if "without libxdp" in info.stdout else ""


def main():
    if reason := why_not():
        suite.skip(reason)
        return
    guest.enter_namespaces()
    suite.run()


if __name__ == "__main__":
    main()
