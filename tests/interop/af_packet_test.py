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


def add_namespace(case):
    """Another network namespace, whose holder this returns."""
    # pylint: disable=consider-using-with
    holder = subprocess.Popen(["unshare", "--net", "sleep", "600"])
    case.addClassCleanup(holder.wait)
    case.addClassCleanup(holder.kill)
    here = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{holder.pid}/ns/net") == here:
        os.sched_yield()
    guest.run(*far(holder), "ip", "link", "set", "lo", "up")
    return holder


def add_veth(case, holder, name="w", addresses=(CLOSE, FAR), queues=1):
    """A pair of `name` 0 and 1; the latter lies in the holder's namespace. One queue: what comes,
    comes to the one that is read."""
    queues = ("numrxqueues", str(queues), "numtxqueues", str(queues))
    close, there = name + "0", name + "1"
    guest.run("ip", "link", "add", close, *queues, "type", "veth", "peer", "name", there, *queues)
    case.addClassCleanup(guest.run, "ip", "link", "del", close)
    guest.run("ip", "link", "set", there, "netns", str(holder.pid))
    ends = ((), close), (far(holder), there)
    for (inside, device), address in zip(ends, addresses):
        guest.run(*inside, "ip", "addr", "add", f"{address}/24", "dev", device)
        guest.run(*inside, "ip", "link", "set", device, "up")


def far(holder):
    return "nsenter", "--target", str(holder.pid), "--net"


class Veth(exchanges.Exchanges):
    close_device = "roce+af_packet:w0"
    far_device = None
    link_mtu = None  # the kernel's

    @classmethod
    def setUpClass(cls):
        holder = add_namespace(cls)
        add_veth(cls, holder)
        if cls.link_mtu:
            for inside, interface in (((), "w0"), (far(holder), "w1")):
                guest.run(*inside, "ip", "link", "set", interface, "mtu", str(cls.link_mtu))
        ends = {exchanges.start_weft(cls, "close"): cls.close_device,
                exchanges.start_weft(cls, "far", far(holder), FAR): cls.far_device}
        cls.wire = exchanges.Wire(ends)


class BothAfPacket(Veth, unittest.TestCase):
    far_device = "roce+af_packet:w1"


class WithUdp(Veth, unittest.TestCase):
    far_device = "roce+udp:w1"


class WithUdpAndNoTrains(Veth, unittest.TestCase):
    far_device = "roce+udp:w1,udp.gso=0"


if __name__ == "__main__":
    guest.run_tests()
