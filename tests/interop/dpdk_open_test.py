#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opening a device of DPDK's: what it takes, what is said where that is not there, what the devices
of a process share, and what is left behind."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import af_packet_test
import dpdk_test
import exchanges
import guest


class LeavesNothing(unittest.TestCase):
    """However a process ends, the host's interface is then as it was."""

    @classmethod
    def setUpClass(cls):
        af_packet_test.add_veth(cls, af_packet_test.add_namespace(cls))

    @staticmethod
    def state():
        """The promiscuity count of the interface, and its flags."""
        link, = json.loads(guest.run("ip", "-details", "-json", "link", "show", "w0"))
        return link["promiscuity"], link.get("allmulti"), sorted(link["flags"])

    def test_after_kill(self):
        before = self.state()
        for driver in ("net_af_packet", "net_pcap"):
            with self.subTest(driver=driver):
                puppet = exchanges.start_weft(type(self), "close")
                puppet.open(device=dpdk_test.device(driver, iface="w0"), memory=exchanges.MEMORY)
                self.assertNotEqual(self.state(), before)
                os.kill(puppet.process, signal.SIGKILL)
                dpdk_test.wait_for(self, lambda: self.state() == before)


class Refused(unittest.TestCase):
    def setUp(self):
        self.puppet = exchanges.start_weft(type(self), "close")

    def refusal(self, where):
        with self.assertRaises(exchanges.Refused) as refused:
            self.puppet.open(device=where, memory=exchanges.MEMORY)
        return str(refused.exception)

    def test_af_xdp_without_huge_pages(self):
        self.assertIn("nr_hugepages",
                      self.refusal(dpdk_test.device("net_af_xdp", iface="lo", huge=0)))

    def test_an_interface_that_is_not_there(self):
        self.assertIn("gone0", self.refusal(dpdk_test.device("net_af_packet", iface="gone0")))

    def test_no_memory_for_the_pool(self):
        self.assertIn("raise dpdk.memory",
                      self.refusal("roce+dpdk:net_memif,engines=8,dpdk.memory=32"))

    def test_a_socket_that_cannot_be_made(self):
        self.assertIn("is its folder", self.refusal("roce+dpdk:net_vhost,dpdk.iface=/gone/s"))

    def test_no_rights(self):
        unprivileged = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if subprocess.run([*unprivileged, "true"], check=False).returncode != 0:
            self.skipTest("this user cannot become another")
        self.puppet = exchanges.start_weft(type(self), "unprivileged", unprivileged)
        for driver in ("net_af_packet", "net_tap"):
            self.assertIn("needs root", self.refusal(dpdk_test.device(driver, iface="lo")))

    def test_a_driver_that_is_not_there(self):
        self.assertIn("try net_memif", self.refusal(dpdk_test.device("net_mistake")))

    def test_huge_pages_that_are_not_there(self):
        """It is said before DPDK starts: without the key, the same process goes on."""
        if any(int(size.read_text("ascii")) for size in
               pathlib.Path("/sys/kernel/mm/hugepages").glob("*/free_hugepages")):
            self.skipTest("this machine has huge pages")
        self.assertIn("no free huge pages", self.refusal("roce+dpdk:net_null,dpdk.huge=1"))
        self.puppet.open(device="roce+dpdk:net_null", memory=exchanges.MEMORY)

    def test_an_argument_that_the_eal_does_not_know(self):
        """DPDK does not start twice in a process, not even after it failed."""
        for _ in range(2):
            self.assertIn("needs a new one",
                          self.refusal("roce+dpdk:net_null,dpdk.eal=--no-such-argument"))

    def test_what_the_first_device_has_decided(self):
        self.puppet.open(device="roce+dpdk:net_null,dpdk.memory=160,dpdk.huge=0", memory=4096)
        for key, value in (("memory", "224"), ("huge", "1"), ("eal", "--no-hpet")):
            refusal = self.refusal(f"roce+dpdk:net_null,dpdk.{key}={value}")
            self.assertIn(f"dpdk.{key}={value}: DPDK runs in this process already", refusal)
        self.puppet.open(device="roce+dpdk:net_null,dpdk.memory=160", memory=4096)

    def test_pci_devices(self):
        self.assertIn("there is no PCI device ffff:ee:1d.6: lspci",
                      self.refusal("roce+dpdk:ffff:ee:1d.6"))
        # Devices that none of DPDK's drivers is for, so that nothing can happen to them: a bridge,
        # which it does not even see without a driver of the kernel's, and virtio's random numbers.
        found = [pci.name for pci in sorted(pathlib.Path("/sys/bus/pci/devices").glob("0000:*"))
                 if (pci / "class").read_text("ascii").startswith("0x0600")
                 or (pci / "device").read_text("ascii") == "0x1044\n"]
        if not found:
            self.skipTest("this machine has no such PCI device")
        self.puppet.open(device="roce+dpdk:net_null", memory=4096)
        for address in found:
            for name in (address, address.removeprefix("0000:")):
                refusal = self.refusal(f"roce+dpdk:{name},dpdk.key=1")
                self.assertRegex(refusal, f"PCI device {address}: (No such device|Not supported|"
                                          "Operation not supported); the kernel's driver is")
                self.assertIn(f"dpdk-devbind.py --bind=vfio-pci {address}", refusal)


class Environment(unittest.TestCase):
    """Where DPDK starts, and what of it stays for the next device of the process."""

    def test_a_processor_that_is_offline(self):
        folder = tempfile.mkdtemp(prefix="weft-cpus-")
        self.addCleanup(shutil.rmtree, folder)
        cpus = pathlib.Path("/sys/devices/system/cpu")
        last = max(int(cpu.name[3:]) for cpu in cpus.glob("cpu[0-9]*"))
        if last == 0:
            self.skipTest("this machine has one processor")
        pathlib.Path(f"{folder}/online").write_text(
            "0\n" if last == 1 else f"0-{last - 1}\n", encoding="ascii")
        hide = (f"mount --bind {folder}/online {cpus}/online && "
                f"mkdir {folder}/empty && mount --bind {folder}/empty {cpus}/cpu{last}/topology && "
                'exec "$@"')
        puppet = exchanges.start_weft(type(self), "close",
                                      ("unshare", "--mount", "sh", "-c", hide, "sh"))
        puppet.open(device="roce+dpdk:net_null", memory=4096)

    def test_a_device_that_the_arguments_bring(self):
        """It can be closed and opened again all the same."""
        puppet = exchanges.start_weft(type(self), "close")
        for _ in range(3):
            puppet.open(device="roce+dpdk:net_null7,dpdk.eal=--vdev=net_null7", memory=4096)


if __name__ == "__main__":
    dpdk_test.main()
