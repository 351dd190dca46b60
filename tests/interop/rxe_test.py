#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Weft against the kernel's rdma_rxe, on a wire between this machine and a guest.

Every operation in both directions, and every byte compared (exchanges.py); the same under loss,
duplication and reordering that the guest's kernel makes (impaired.py); single questions whose
answers README.md tabulates (dialogues.py). ./dev guests builds the guest's kernel (kernel.py);
without it the test is skipped, aloud. WEFT_INTEROP_PACKETS: how many packets of data at least,
100,000 if unset.
"""
import os
import pathlib
import unittest

import dialogues
import exchanges
import guest
import hw_counters
import impaired
import machine
import scripts
import suite

PACKETS = int(os.environ.get("WEFT_INTEROP_PACKETS", "100000"))
DPDK = "10.77.0.4"
SCRIPT_PORT = guest.GUEST_PORT + 1


def why_not(kind=machine.UML):
    """What this machine lacks for a guest of that kind, or None."""
    if not pathlib.Path("/dev/net/tun").exists():
        return "no /dev/net/tun"
    if not guest.can_enter_namespaces():
        return "a network namespace needs root"
    if not (exchanges.BIN / "verbs_puppet").exists():
        return "libibverbs-dev was missing at build"
    return kind.why_not()


class Guests(exchanges.Exchanges):
    """The exchanges between weft here and a puppet in a guest of this class."""

    machine = machine.UML
    device = None  # at our end of the wire
    rxe_device = "rxe0"
    puppet = "verbs_puppet"
    link_mtu = 1500
    bridged = False

    @classmethod
    def setUpClass(cls):
        cls.guest = guest.Guest(cls.machine, exchanges.BIN / cls.puppet, cls.link_mtu, cls.bridged)
        cls.addClassCleanup(cls.guest.close)
        cls.weft = exchanges.start_weft(cls, "weft")
        try:
            cls.rxe = exchanges.Puppet("rxe", guest.GUEST, guest.GUEST_PORT)
        except OSError:
            print(cls.guest.said())
            raise
        cls.wire = exchanges.Wire({cls.weft: cls.device, cls.rxe: cls.rxe_device})


class Rxe(impaired.Impaired, Guests):
    """With `device` at our end of the wire, also under impairments."""

    def shell(self, *commands):
        return self.rxe.shell(command="; ".join(commands))

    def packets_of_rxe(self):
        counts = hw_counters.of_rxe(self.rxe)
        return counts["sent_pkts"] + counts["rcvd_pkts"]

    def test_many_packets(self):
        before = self.packets_of_rxe()
        while self.packets_of_rxe() - before < PACKETS:
            for operation in exchanges.MOVES:
                self.carry_out(*(exchanges.Move(self.wire, direction, operation, 64, 64000, offset)
                                 for direction, offset in zip(self.wire.directions(),
                                                              (0, exchanges.MEMORY // 2))))
        print(f"{self.packets_of_rxe() - before} packets between weft and rxe")


class OverUdp(impaired.EveryService, Rxe, unittest.TestCase):
    device = f"roce+udp:{guest.HOST}"

    def test_dialogues(self):
        dialogues.check(self, self.wire, self.rxe, "rxe", guest.RAW_PEER)

    def test_hw_counters(self):  # C-EVT-110
        hw_counters.check(self, self.wire)

    def test_scripts(self):
        """Those of tests/script, against the table of what rxe plays otherwise."""
        self.shell(f"{exchanges.BIN}/weft_script respond --device ibverbs:{self.rxe_device} "
                   f"--port {SCRIPT_PORT} > /run/responder 2>&1 &")
        scripts.check(self, f"{guest.GUEST}:{SCRIPT_PORT}", f"roce+udp:{guest.RAW_PEER}")


class OverUdpWithoutTrains(Guests, unittest.TestCase):
    """A system call for each packet."""

    device = f"roce+udp:{guest.HOST},udp.gso=0"


class OverAfPacket(Rxe, unittest.TestCase):
    device = "roce+af_packet:weft0"
    link_mtu = 4200
    mtus = (256, 512, 2048, 4096)


class OverDpdk(Guests, unittest.TestCase):
    """DPDK's net_af_packet on the tap, at an address that our kernel does not have. Undisturbed
    only, too: the effect of impairments does not depend on the port."""

    device = f"roce+dpdk:net_af_packet,dpdk.iface=weft0,dpdk.address={DPDK},dpdk.prefix=24"
    link_mtu = 4200

    @classmethod
    def setUpClass(cls):
        unless_built_without(super().setUpClass, "libdpdk-dev")


class OverDpdkTap(Guests, unittest.TestCase):
    """DPDK's net_tap, whose interface of the kernel shares a bridge with the guest's tap."""

    device = f"roce+dpdk:net_tap,dpdk.iface=weft-dpdk,dpdk.address={DPDK},dpdk.prefix=24"
    bridged = True

    @classmethod
    def setUpClass(cls):
        unless_built_without(super().setUpClass, "libdpdk-dev")
        # Its own address there is the one that DPDK sends from; a bridge keeps what is sent to it.
        guest.run("ip", "link", "set", "weft-dpdk", "address", "02:00:00:00:00:09",
                  "master", "weft-bridge", "up")


class OverAfXdp(Guests, unittest.TestCase):
    """AF_XDP on a veth whose other end is bridged to the tap."""

    device = "roce+af_xdp:weft0"
    link_mtu = 3400  # a frame and its headroom in a page
    mtus = (256, 512, 2048)
    bridged = True

    @classmethod
    def setUpClass(cls):
        unless_built_without(super().setUpClass, "libxdp-dev")


def unless_built_without(set_up, package):
    try:
        set_up()
    except exchanges.Refused as refused:
        if f"built without {package.removesuffix('-dev')}" not in str(refused):
            raise
        raise unittest.SkipTest(f"built without {package}") from refused


class Ipv6(Guests):
    """Undisturbed only: what impairments do does not depend on the network header."""

    rxe_device = f"rxe0@{guest.GUEST6}"
    test_multicast = None  # the puppet of libibverbs joins IPv4 groups only

    @classmethod
    def setUpClass(cls):
        if not pathlib.Path("/proc/net/if_inet6").exists():
            raise unittest.SkipTest("no IPv6 here")
        super().setUpClass()


class OverUdpAndIpv6(Ipv6, unittest.TestCase):
    device = f"roce+udp:[{guest.HOST6}]"


class OverAfPacketAndIpv6(Ipv6, unittest.TestCase):
    device = f"roce+af_packet:weft0,af_packet.address={guest.HOST6}"
    link_mtu = 4200
    mtus = (256, 4096)


class OverUdpAndIbverbs(Guests, unittest.TestCase):
    """Weft at both ends: its own RoCE here, the provider ibverbs on the guest's rxe there."""

    device = f"roce+udp:{guest.HOST}"
    rxe_device = "ibverbs:rxe0"
    puppet = "weft_puppet"
    hide_revoked = ("rxe",)  # README.md, "Memory windows"


def main():
    reason = why_not()
    if reason:
        suite.skip(reason)
        return
    guest.enter_namespaces()
    suite.run()


if __name__ == "__main__":
    main()
