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

MINE = "10.78.0.3"  # of the DPDK device, close by
FAR_CONTROL = "10.79.0.2"
MTU = 9000
HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


def set_huge_pages(count):
    """How many there are then."""
    try:
        HUGE_PAGES.write_text(f"{count}\n", encoding="ascii")
    except OSError:
        pass
    return HUGE_PAGES.read_text(encoding="ascii")


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


class LeavesNothing(unittest.TestCase):
    """However a process ends, the host's interface is then as it was."""
    PROMISCUOUS, ALL_MULTICAST = 0x100, 0x200

    @classmethod
    def setUpClass(cls):
        af_packet_test.add_veth(cls, af_packet_test.add_namespace(cls))

    @staticmethod
    def flags():
        return int(pathlib.Path("/sys/class/net/w0/flags").read_text(encoding="ascii"), 16)

    def test_after_kill(self):
        before = self.flags()
        for driver in ("net_af_packet", "net_pcap"):
            with self.subTest(driver=driver):
                puppet = exchanges.start_weft(type(self), "close")
                puppet.open(device=device(driver, iface="w0"), memory=exchanges.MEMORY)
                self.assertTrue(self.flags() & self.ALL_MULTICAST)
                self.assertEqual(self.flags() & self.PROMISCUOUS,
                                 self.PROMISCUOUS if driver == "net_pcap" else 0)
                os.kill(puppet.process, signal.SIGKILL)
                wait_for(self, lambda: self.flags() == before)


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


class AfXdp(Veth, unittest.TestCase):
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


def stale_socket(case):
    """A path in a directory that goes with the test case, with a socket at which nobody listens."""
    scratch = tempfile.mkdtemp(prefix="weft-vhost-")
    case.addClassCleanup(shutil.rmtree, scratch)
    path = f"{scratch}/s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    return path


class Vhost(exchanges.Exchanges, unittest.TestCase):
    """Two processes with the same device string but for their addresses: who comes first is the
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


def written(process):
    """How many frames the device of a process has sent."""
    return counted(process.pid, "dpdk_tx_frames")


def wait_for(case, what):
    limit = time.monotonic() + exchanges.CONNECT_LIMIT_S
    while not what():
        case.assertLess(time.monotonic(), limit)
        time.sleep(0.02)


class VhostGone(unittest.TestCase):
    """The vhost is killed: the other process ends as it wants to, not by a signal of a driver that
    writes to it."""

    def test_the_other_process_ends_by_itself(self):
        path = stale_socket(type(self))
        where = f"roce+dpdk:net_vhost,dpdk.iface={path}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        words = [str(exchanges.BIN / "weft_write_lat"), "-d", where, "-p", port, "-D", "30"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as first:
            self.addCleanup(first.kill)
            wait_for(self, lambda: path in pathlib.Path("/proc/net/unix").read_text("ascii"))
            with subprocess.Popen([*words, "--connect_wait", "30", "127.0.0.1"],
                                  stdout=subprocess.DEVNULL) as second:
                self.addCleanup(second.kill)
                wait_for(self, lambda: written(second) > 1000)
                first.kill()
                self.assertGreater(second.wait(timeout=60), 0)


class MemifServerGone(unittest.TestCase):
    """The process that serves a memif is killed, and another takes its place: the client's device,
    which has lived all the time, has its link again."""

    def serve(self, path):
        end = exchanges.start_weft(type(self), "server")
        return end, f"roce+dpdk:net_memif,dpdk.socket={path},dpdk.address=10.78.0.1"

    def test_the_next_server(self):
        folder = tempfile.mkdtemp(prefix="weft-memif-")
        self.addCleanup(shutil.rmtree, folder)
        for number, extra in enumerate(("", ",engines=2")):
            path = f"{folder}/{number}"
            path = f"{folder}/s{extra}"
            server, device_string = self.serve(path)
            client = exchanges.start_weft(type(self), "client")
            wire = exchanges.Wire({
                server: device_string + extra,
                client: device_string.replace("0.1", "0.2") + extra})
            for _ in range(3):
                self.move_all(wire)
                os.kill(server.process, signal.SIGKILL)
                wait_for(self, lambda: path not in pathlib.Path("/proc/net/unix").read_text("ascii"))
                server, _same = self.serve(path)
                wire.open = {server: server.open(device=device_string + extra,
                                                 memory=exchanges.MEMORY),
                             client: wire.open[client]}

    def move_all(self, wire):
        wire.connect()
        for direction in wire.directions():
            move = exchanges.Move(wire, direction, "write", 10, 5000)
            move.prepare()
            move.begin()
            move.end(self)
            move.check(self)


class Refused(unittest.TestCase):
    def setUp(self):
        self.puppet = exchanges.start_weft(type(self), "close")

    def refusal(self, where):
        with self.assertRaises(exchanges.Refused) as refused:
            self.puppet.open(device=where, memory=exchanges.MEMORY)
        return str(refused.exception)

    def test_af_xdp_without_huge_pages(self):
        self.assertIn("nr_hugepages", self.refusal(device("net_af_xdp", iface="lo", huge=0)))

    def test_an_interface_that_is_not_there(self):
        self.assertIn("gone0", self.refusal(device("net_af_packet", iface="gone0")))

    def test_no_memory_for_the_pool(self):
        self.assertIn("raise dpdk.memory", self.refusal("roce+dpdk:net_memif,dpdk.memory=32"))

    def test_a_socket_that_cannot_be_made(self):
        self.assertIn("is its folder", self.refusal("roce+dpdk:net_vhost,dpdk.iface=/gone/s"))

    def test_no_rights(self):
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if subprocess.run([*nobody, "true"], check=False).returncode != 0:
            self.skipTest("this user cannot become another")
        self.puppet = exchanges.start_weft(type(self), "nobody", nobody)
        for driver in ("net_af_packet", "net_tap"):
            self.assertIn("needs root", self.refusal(device(driver, iface="lo")))

    def test_a_driver_that_is_not_there(self):
        self.assertIn("try net_memif", self.refusal(device("net_mistake")))


class Tap(exchanges.Exchanges, unittest.TestCase):
    """The other end of net_tap is this kernel: af_packet on the interface that it made."""

    @classmethod
    def setUpClass(cls):
        close = exchanges.start_weft(cls, "close")
        cls.wire = exchanges.Wire({close: device("net_tap", iface="weft-tap")})
        guest.run("ip", "addr", "add", f"{af_packet_test.CLOSE}/24", "dev", "weft-tap")
        guest.run("ip", "link", "set", "weft-tap", "up")
        kernel = exchanges.start_weft(cls, "kernel")
        cls.wire.add(kernel, "roce+af_packet:weft-tap")


def why_not():
    if not guest.can_enter_namespaces():
        return "a network namespace needs root"
    info = subprocess.run([exchanges.BIN / "weft_info"], capture_output=True, text=True,
                          check=False)
    return "built without libdpdk-dev" if "without libdpdk" in info.stdout else ""


def main():
    reason = why_not()
    if reason:
        print(f"SKIPPED: interop/dpdk_test: {reason}")
        return
    guest.enter_namespaces()
    unittest.main()


if __name__ == "__main__":
    main()
