#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The exchanges with a VLAN tag on the wire: af_packet on the VLAN's interface, rxe on its own.

Both are in one guest, whose kernel has VLANs: rxe with one interface, and weft, in a network
namespace of its own, with another. What joins them is a bridge of this machine, which hands tagged
frames over as they are."""
import tempfile
import unittest

import exchanges
import guest
import machine
import rxe_test
import suite

TAG, BRIDGE = 5, "weft-bridge"
RXE, WEFT = "10.78.0.2", "10.78.0.3"  # with the tag
WEFT_CONTROL, WEFT_PORT = "10.77.0.3", 7003  # without it
TAPS = ("weft-t0", "weft-t1")


def make_bridge(case):
    guest.run("ip", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
    case.addClassCleanup(guest.run, "ip", "link", "del", BRIDGE)
    for tap in TAPS:
        guest.run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
        case.addClassCleanup(guest.run, "ip", "link", "del", tap)
        guest.run("ip", "link", "set", tap, "master", BRIDGE, "up")
    guest.run("ip", "link", "set", BRIDGE, "up")
    guest.run("ip", "addr", "add", f"{guest.HOST}/24", "dev", BRIDGE)


def with_tag(ip, link, address):
    return (f"{ip} link add link {link} name {link}.{TAG} type vlan id {TAG}",
            f"{ip} addr add {address}/24 dev {link}.{TAG}", f"{ip} link set {link}.{TAG} up")


def commands():
    """What the guest's shell does once it has an rxe device."""
    own = "ip -n own"
    return (*with_tag("ip", "wire0", RXE), "mkdir -p /run/netns", "ip netns add own",
            "ip link set ${weft_wire%0}1 netns own name own0", f"{own} link set lo up",
            f"{own} link set own0 address 02:00:00:00:01:03 up",
            f"{own} addr add {WEFT_CONTROL}/24 dev own0", *with_tag(own, "own0", WEFT))


class OnVlan(exchanges.Exchanges, unittest.TestCase):
    test_multicast = None  # with two interfaces the kernel sends to groups by the untagged one
    # No tag makes a difference to these, and they take their time on one processor.
    test_psn_wrap = test_other_path_mtus = test_reads_of_unlike_size = test_fence = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.addClassCleanup(folder.cleanup)
        make_bridge(cls)
        process = guest.start_puppet(machine.UML, folder.name, exchanges.BIN / "verbs_puppet", TAPS,
                                     1500)
        cls.addClassCleanup(guest.stop, process)
        rxe = exchanges.Puppet("rxe", guest.GUEST, guest.GUEST_PORT)
        said = rxe.shell(command="; ".join(commands()))
        assert not said.strip(), said
        rxe.shell(command=f"ip netns exec own {exchanges.BIN}/weft_puppet {WEFT_PORT} "
                          "> /run/weft 2>&1 &")
        weft = exchanges.Puppet("weft", WEFT_CONTROL, WEFT_PORT)
        cls.wire = exchanges.Wire({weft: f"roce+af_packet:own0.{TAG}", rxe: f"rxe0@{RXE}"})

    def test_tagged(self):
        """All of it went by the VLAN's interface."""
        rxe = next(end for end in self.wire.open if end.name == "rxe")
        count = f"cat /sys/class/net/wire0.{TAG}/statistics/rx_packets"
        before = int(rxe.shell(command=count))
        self.one_way_and_the_other(("write",), (5000,), 20)
        self.assertGreaterEqual(int(rxe.shell(command=count)) - before, 20 * 5)


def main():
    reason = rxe_test.why_not()
    if reason:
        suite.skip(reason)
        return
    guest.enter_namespaces()
    suite.run()


if __name__ == "__main__":
    main()
