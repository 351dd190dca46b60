#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The providers weft and weft_msg under Debian's libfabric, unmodified: what fi_info lists, and
fi_pingpong over connected endpoints, over ofi_rxm above them, and over reliable datagrams.
fi_pingpong -c compares every byte."""
import os
import re
import unittest

import drop_in

PROVIDERS = drop_in.BUILD / "lib/libfabric"
SIZES = ("64", "4096", "65536")
SHM = f"shm:libfabric-{os.getpid()}"
# The row of a size: bytes, sent, acknowledged.
ROW = re.compile(r"^(\S+) +(\S+) +=?(\S+) ", re.M)


def variables(device, **more):
    """The environment of a program with our providers on a device."""
    return {"FI_PROVIDER_PATH": str(PROVIDERS), "WEFT_DEVICE": device, **more}


def run(*words, device, **more):
    """The exit code and output of a program that runs alone."""
    process = drop_in.Process(words, variables=variables(device, **more), launcher=None)
    try:
        return process.wait(), process.output()
    finally:
        process.close()


def pingpong(provider, kind, device, size, count="20", options=()):
    """Runs fi_pingpong between two processes, data checked."""
    port = str(drop_in.free_port())
    words = ["fi_pingpong", "-c", "-p", provider, "-e", kind, "-S", size, "-I", count, *options]
    _, client = drop_in.pair([*words, "-B", port], [*words, "-P", port, "127.0.0.1"],
                             drop_in.at_port(int(port)), launcher=None, **variables(device))
    rows = ROW.findall(client)[1:]
    assert rows == [(rows[0][0], count, count)], f"no figures\n{client}"


class Listing(unittest.TestCase):
    def test_fi_info_shows_device_and_address(self):
        code, output = run("fi_info", "-v", "-p", "weft_msg", device="roce+udp:lo")
        self.assertEqual(code, 0, output)
        self.assertIn("FI_EP_MSG", output)
        self.assertIn("fi_sockaddr_in://127.0.0.1:0", output)
        self.assertIn("domain: 0x0\n        name: roce+udp:lo,udp.shared=1", output)

    def test_ofi_rxm_stacks_on_it(self):
        code, output = run("fi_info", "-p", "weft_msg;ofi_rxm", device="roce+udp:lo")
        self.assertEqual(code, 0, output)
        self.assertIn("FI_EP_RDM", output)

    def test_a_wrong_device_is_told_in_the_log(self):
        for device, reason in (("roce+udp:nonesuch", "nonesuch is neither an interface"),
                               ("srd+udp:lo", "is not of roce")):
            with self.subTest(device=device):
                code, output = run("fi_info", "-p", "weft_msg", device=device,
                                   FI_LOG_LEVEL="warn")
                self.assertNotEqual(code, 0)
                self.assertIn(reason, output)

    def test_its_own_parameter_comes_before_weft_device(self):
        code, output = run("fi_info", "-p", "weft_msg", device="nonesuch",
                           FI_WEFT_MSG_DEVICE="roce+udp:lo")
        self.assertEqual(code, 0, output)


class Pingpong:
    """What runs over each device."""
    device = None

    def test_connected(self):
        for size in SIZES:
            pingpong("weft_msg", "msg", self.device, size)

    def test_through_ofi_rxm(self):
        for size in SIZES:
            pingpong("weft_msg;ofi_rxm", "rdm", self.device, size)

    def test_tagged_through_ofi_rxm(self):
        pingpong("weft_msg;ofi_rxm", "rdm", self.device, "1024", options=("-m", "tagged"))


class Datagrams:
    """The provider weft."""
    device = None

    def test_messages(self):
        for size in SIZES:
            pingpong("weft", "rdm", self.device, size)

    def test_tagged_messages(self):
        for size in SIZES:
            pingpong("weft", "rdm", self.device, size, options=("-m", "tagged"))


class DatagramsOverUdp(Datagrams, unittest.TestCase):
    device = "srd+udp:lo"

    def test_fi_info_shows_it(self):
        code, output = run("fi_info", "-p", "weft", device=self.device)
        self.assertEqual(code, 0, output)
        self.assertIn("FI_EP_RDM", output)

    def test_loss(self):
        for size in ("256", "65536"):
            pingpong("weft", "rdm", self.device + ",fault.loss=0.01,fault.seed=7", size, "200")


class DatagramsOverShm(Datagrams, unittest.TestCase):
    device = f"srd+{SHM}"


class OverUdp(Pingpong, unittest.TestCase):
    device = "roce+udp:lo"

    def test_loss(self):
        pingpong("weft_msg", "msg", self.device + ",fault.loss=0.01,fault.seed=7", "4096", "200")


class OverShm(Pingpong, unittest.TestCase):
    device = f"roce+{SHM}"


if __name__ == "__main__":
    if not (PROVIDERS / "libweft_msg-fi.so").exists():
        drop_in.suite.skip("built without libfabric-dev, or with sanitizers")
    else:
        drop_in.main("fi_pingpong", "fi_info")
