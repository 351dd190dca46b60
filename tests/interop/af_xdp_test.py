#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges over AF_XDP on a veth pair: at both ends, and with udp, whose trains and unfinished
checksums a veth hands over, and with af_packet at the other.

The puppet at the far end is asked over the same two interfaces: the kernel's TCP beside AF_XDP."""
import os
import re
import subprocess
import time
import unittest

import af_packet_test
import exchanges
import guest
import suite

LIMIT_S = 120


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


class Beside(unittest.TestCase):
    """Roce and srd on one veth at once, each on a queue of its own at both ends and each end in a
    process of its own. Those of roce, which came first, are killed in the middle."""

    @classmethod
    def setUpClass(cls):
        cls.holder = af_packet_test.add_namespace(cls)
        af_packet_test.add_veth(cls, cls.holder, queues=2)

    def start(self, provider, queue, arguments):
        """Server and client of a measurement whose every byte is checked."""
        command = [exchanges.BIN / "weft_write_lat", "-p", str(18600 + queue),
                   "--data_validation", "-s", "4000", *arguments, "-d"]
        server = self.popen([*af_packet_test.far(self.holder), *command,
                             f"{provider}+af_xdp:w1,af_xdp.queue={queue}"])
        return server, self.popen([*command, f"{provider}+af_xdp:w0,af_xdp.queue={queue}",
                                   af_packet_test.FAR])

    def popen(self, words):
        # pylint: disable=consider-using-with
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env={**os.environ, "WEFT_INSECURE": "1"})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ends_well(self, processes):
        for process in processes:
            said = process.communicate(timeout=LIMIT_S)[0]
            self.assertEqual(process.returncode, 0, said)

    def attached(self):
        here = guest.run("ip", "link", "show", "w0")
        return "xdp" in here + guest.run(*af_packet_test.far(self.holder), "ip", "link")

    def test_both_move_data_and_one_is_killed(self):
        self.ends_well([*self.start("roce", 0, ("-n", "200")),
                        *self.start("srd", 1, ("-n", "200"))])
        self.wait_for(lambda: not self.attached())
        killed = self.start("roce", 0, ("-D", "600"))
        self.wait_for(self.attached)
        others = self.start("srd", 1, ("-n", "500"))
        time.sleep(1)
        for process in killed:
            self.assertIsNone(process.poll(), "it runs until it is killed")
            process.kill()
        self.ends_well(others)
        self.wait_for(lambda: not self.attached())

    def wait_for(self, condition):
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)


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
