#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges over raw frames on a veth pair: af_packet at both ends, and af_packet with udp,
whose trains a veth hands over uncut.

Other ends of the wire: rxe_test.py."""
import os
import subprocess
import unittest

import exchanges
import guest

CLOSE, FAR = "10.78.0.1", "10.78.0.2"


def add_veth(case):
    """A pair w0, w1; w1 lies in another namespace, whose holder this returns."""
    # pylint: disable=consider-using-with
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    case.addClassCleanup(holder.wait)
    case.addClassCleanup(holder.kill)
    here = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{holder.pid}/ns/net") == here:
        os.sched_yield()
    guest.run("ip", "link", "add", "w0", "type", "veth", "peer", "name", "w1")
    case.addClassCleanup(guest.run, "ip", "link", "del", "w0")
    guest.run("ip", "link", "set", "w1", "netns", str(holder.pid))
    for inside, device, address in (((), "w0", CLOSE), (far(holder), "w1", FAR)):
        guest.run(*inside, "ip", "addr", "add", f"{address}/24", "dev", device)
        guest.run(*inside, "ip", "link", "set", device, "up")
    guest.run(*far(holder), "ip", "link", "set", "lo", "up")
    return holder


def far(holder):
    return "nsenter", "--target", str(holder.pid), "--net"


class Veth(exchanges.Exchanges):
    far_device = None

    @classmethod
    def setUpClass(cls):
        holder = add_veth(cls)
        ends = {exchanges.start_weft(cls, "close"): "roce+af_packet:w0",
                exchanges.start_weft(cls, "far", far(holder), FAR): cls.far_device}
        cls.wire = exchanges.Wire(ends)


class BothAfPacket(Veth, unittest.TestCase):
    far_device = "roce+af_packet:w1"


class WithUdp(Veth, unittest.TestCase):
    far_device = "roce+udp:w1"


class WithUdpAndNoTrains(Veth, unittest.TestCase):
    far_device = "roce+udp:w1,udp.gso=0"


def main():
    if not guest.can_enter_namespaces():
        print("SKIPPED: interop/af_packet_test: a network namespace needs root")
        return
    guest.enter_namespaces()
    unittest.main()


if __name__ == "__main__":
    main()
