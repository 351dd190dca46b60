#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges between DPDK's drivers over interfaces of the kernel and the port af_packet: on a
veth pair, and on the tap that net_tap makes.

The kernel has an address of its own on the same interface, and leaves DPDK's alone."""
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import af_packet_test
import exchanges
import guest
import suite

MINE = "10.78.0.3"  # of the DPDK device, close by
FAR_CONTROL = "10.79.0.2"
MTU = 9000


def device(driver, **arguments):
    words = {"address": MINE, "prefix": 24, **arguments}
    return ",".join([f"roce+dpdk:{driver}"] + [f"dpdk.{key}={words[key]}" for key in words])


class Veth(exchanges.Exchanges):
    """A driver on w0, another port on w1. The puppets are asked over wires of their own: net_af_xdp
    leaves the kernel nothing of w0."""
    driver = None
    engines = ""
    far_device = "roce+af_packet:w1"
    link_mtu = MTU

    @classmethod
    def setUpClass(cls):
        holder = af_packet_test.add_namespace(cls)
        af_packet_test.add_veth(cls, holder)
        af_packet_test.add_veth(cls, holder, "c", ("10.79.0.1", FAR_CONTROL))
        far = af_packet_test.far(holder)
        for inside, interface in (((), "w0"), (far, "w1")):
            guest.run(*inside, "ip", "link", "set", interface, "mtu", str(cls.link_mtu))
        ends = {exchanges.start_weft(cls, "close"):
                    device(cls.driver, iface="w0") + cls.engines,
                exchanges.start_weft(cls, "far", far, FAR_CONTROL): cls.far_device}
        cls.wire = exchanges.Wire(ends)


class AfPacket(Veth, unittest.TestCase):
    driver = "net_af_packet"


class AfPacketOfEngines(Veth, unittest.TestCase):
    """Two queues, over which the kernel spreads what comes: half of it is another engine's."""
    driver = "net_af_packet"
    engines = ",engines=2"

    def test_handed_over(self):
        """Each connection is another flow, which the kernel brings to one of the queues."""
        close = next(iter(self.wire.open))
        for _ in range(30):
            self.wire.connect()
            self.one_way_and_the_other(("write",), (64,), 4)
            if counted(close.process, "dpdk_handed_over"):
                break
        self.assertGreater(counted(close.process, "dpdk_handed_over"), 0)
        self.assertEqual(counted(close.process, "dpdk_handed_drops"), 0)


class AfPacketAndSmallFrames(Veth, unittest.TestCase):
    """Frames of 1,500 bytes at most: the path MTU follows the interface's."""
    driver = "net_af_packet"
    link_mtu = 1500


class Pcap(Veth, unittest.TestCase):
    driver = "net_pcap"


class AfPacketAndUdp(Veth, unittest.TestCase):
    """Datagrams of the kernel's come with checksums that a device was to fill in."""
    driver = "net_af_packet"
    far_device = "roce+udp:w1,udp.gso=0"


class PcapAndUdp(Veth, unittest.TestCase):
    driver = "net_pcap"
    far_device = "roce+udp:w1,udp.gso=0"


def stale_socket(case):
    """A path in a directory of the test case, with a socket file without a listener."""
    scratch = tempfile.mkdtemp(prefix="weft-vhost-")
    case.addClassCleanup(shutil.rmtree, scratch)
    path = f"{scratch}/s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    return path


class Vhost(exchanges.Exchanges, unittest.TestCase):
    """Two processes with the same device string but for their addresses: the first is the
    vhost, the other the virtio_user. The first finds a socket that a killed process has left."""

    @classmethod
    def setUpClass(cls):
        path = stale_socket(cls)
        cls.wire = exchanges.Wire({
            exchanges.start_weft(cls, name):
                f"roce+dpdk:net_vhost,dpdk.iface={path},dpdk.address={address}"
            for name, address in (("first", "10.78.0.1"), ("second", "10.78.0.2"))})

    def test_full_ring(self):
        """A peer that stands still fetches nothing: what its ring of 1,024 does not hold waits."""
        self.wire.connect(service="ud")
        for source, target in self.wire.directions():
            os.kill(target.process, signal.SIGSTOP)
            try:
                source.begin("run", op="send", count=3000, size=64, offset=0)
                time.sleep(0.5)
                self.assertEqual(select.select([source.connection], [], [], 0)[0], [])
            finally:
                os.kill(target.process, signal.SIGCONT)
            self.assertEqual(source.end(), {"status": "success", "done": "3000"})
        self.wire.connect()
        self.one_way_and_the_other(("write",), (4096,), 4)


class VhostAtOnce(unittest.TestCase):
    """Both processes are started at the same time: one of them is the vhost all the same."""

    def test_one_serves(self):
        for _ in range(3):
            path = stale_socket(type(self))
            ends = [exchanges.start_weft(type(self), name) for name in ("one", "other")]
            for number, end in enumerate(ends, 1):
                end.begin("open", memory=exchanges.MEMORY,
                          device=f"roce+dpdk:net_vhost,dpdk.iface={path},"
                                 f"dpdk.address=10.78.0.{number}")
            wire = exchanges.Wire({})
            for end in ends:
                wire.open[end] = end.end()
            wire.connect()
            move = exchanges.Move(wire, tuple(ends), "write", 4, 4096)
            move.prepare()
            move.begin()
            move.end(self)
            move.check(self)


def counted(process, counter):
    """A counter of the devices of a process; 0 until it can be asked."""
    stat = subprocess.run([exchanges.BIN / "weft_stat", "-i", "0", "--json", str(process)],
                          capture_output=True, text=True, check=False)
    if stat.returncode != 0:
        return 0
    return sum(device["counters"][counter] for device in json.loads(stat.stdout)["devices"])


def wait_for(case, what):
    limit = time.monotonic() + exchanges.CONNECT_LIMIT_S
    while not what():
        case.assertLess(time.monotonic(), limit)
        time.sleep(0.02)


class Tap(exchanges.Exchanges, unittest.TestCase):
    """The other end of net_tap is this kernel: af_packet on the interface that it made."""
    keys = {}
    far_device = "roce+af_packet:weft-tap"

    @classmethod
    def setUpClass(cls):
        cls.close = exchanges.start_weft(cls, "close")
        cls.wire = exchanges.Wire({cls.close: device("net_tap", iface="weft-tap", **cls.keys)})
        guest.run("ip", "addr", "add", f"{af_packet_test.CLOSE}/24", "dev", "weft-tap")
        guest.run("ip", "link", "set", "weft-tap", "up")
        kernel = exchanges.start_weft(cls, "kernel")
        cls.wire.add(kernel, cls.far_device)


class TapOffload(Tap):
    """Frames may come in several buffers, and the driver looks at UDP checksums, which the kernel
    sends."""
    keys = {"offload": 1}
    far_device = "roce+udp:weft-tap"


def why_not():
    if not guest.can_enter_namespaces():
        return "a network namespace needs root"
    info = subprocess.run([exchanges.BIN / "weft_info"], capture_output=True, text=True,
                          check=False)
    return "built without libdpdk-dev" if "without libdpdk" in info.stdout else ""


def main():
    reason = why_not()
    if reason:
        suite.skip(reason)
        return
    guest.enter_namespaces()
    suite.run()


if __name__ == "__main__":
    main()
