#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The plug-in of NCCL: every version over every kind of device, with loss, with several devices as
one, and what it exports."""
import os
import subprocess
import unittest

import nccl_tools
from nccl_tools import RCCL, VERSIONS, WEFT, check

SHM = f"shm:nccl-{os.getpid()}"
SHORT = ("--max-size", 1 << 20)


class Devices(unittest.TestCase):
    def passes(self, device, *options, library=WEFT):
        report = check(library, *options, WEFT_DEVICE=device)
        self.assertEqual(report.code, 0, report)
        self.assertNotIn("FAIL", str(report))
        return report

    def test_every_version(self):
        report = self.passes("srd+udp:lo", *SHORT, "--rules",
                             "properties,connect,zero,groups,full,optional,close")
        self.assertEqual([each["version"] for each in report.all["versions"]], VERSIONS)

    def test_every_rule_over_srd(self):
        report = self.passes("srd+udp:lo", "--versions", 12, "--max-size", 8 << 20)
        verdicts = report.verdicts(12)
        self.assertEqual({rule for rule in verdicts if verdicts[rule] != "pass"}, {"virtual"})

    def test_every_rule_over_rc(self):
        self.passes("roce+udp:lo", "--versions", 8, "--max-size", 8 << 20)

    def test_shared_memory(self):
        for provider in ("srd", "roce"):
            with self.subTest(provider=provider):
                self.passes(f"{provider}+{SHM}", "--versions", 10, *SHORT)

    def test_loss_and_reordering(self):
        for provider in ("srd", "roce"):
            with self.subTest(provider=provider):
                self.passes(f"{provider}+udp:lo,fault.loss=0.01,fault.reorder=0.05", "--versions",
                            12, *SHORT, "--rules", "sizes,order,groups,full,close,all-reduce")

    def test_four_ranks(self):
        self.passes("srd+udp:lo", "--versions", 11, "-r", 4, *SHORT, "--rules",
                    "sizes,groups,connections,close,all-reduce,all-to-all,death")

    def test_rails_are_one_device_with_the_speed_of_all(self):
        at = f"127.77.{os.getpid() % 250}"
        report = self.passes(f"srd+udp:{at}.1,rails={at}.2+{at}.3", *SHORT, "--versions", 12,
                             "--rules", "properties,sizes,groups")
        self.assertEqual(report.all["versions"][0]["devices"], f"srd+udp:{at}.1 (300000 Mb/s)")

    def test_the_library_of_rccl(self):
        self.passes("srd+udp:lo", *SHORT, "--versions", 11, "--rules", "sizes,groups",
                    library=RCCL)

    def test_two_devices(self):
        for provider in ("srd", "roce"):
            report = self.passes(f"{provider}+udp:lo;{provider}+udp:lo", *SHORT, "-d", 1,
                                 "--versions", "9,12", "--rules", "properties,virtual,sizes")
            self.assertEqual(report.verdicts(12)["virtual"], "pass")


class Library(unittest.TestCase):
    def test_protocols_that_need_an_order_are_excluded(self):
        for protocols, warns in (("Simple", False), ("^LL,LL128", False), ("^ll128,LL", False),
                                 ("LL,Simple", True), ("^LL128", True), ("ll128", True)):
            with self.subTest(protocols=protocols):
                report = check(WEFT, "--versions", 12, "--rules", "properties", "--log", "warn",
                               WEFT_DEVICE=f"srd+{SHM}", NCCL_PROTO=protocols)
                self.assertEqual((report.code, "use NCCL_PROTO=Simple" in report.error),
                                 (0, warns), report)

    def test_devices_without_a_pci_device_are_not_merged(self):
        for devices, level, is_set in ((f"srd+{SHM};srd+udp:lo", None, True),
                                       (f"srd+{SHM}", None, False),
                                       (f"srd+{SHM};srd+udp:lo", "PORT", False)):
            with self.subTest(devices=devices, level=level):
                given = {"NCCL_NET_MERGE_LEVEL": level} if level else {}
                report = check(WEFT, "--versions", 12, "--rules", "properties", "--log", "info",
                               WEFT_DEVICE=devices, **given)
                self.assertEqual((report.code, "NCCL_NET_MERGE_LEVEL=LOC is set" in report.error),
                                 (0, is_set), report)

    def test_it_exports_its_tables_and_nothing_else(self):
        for library in (WEFT, RCCL):
            said = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True,
                                  text=True, check=True).stdout
            names = {line.split()[-1] for line in said.splitlines()}
            self.assertEqual({f"ncclNetPlugin_v{each}" for each in VERSIONS}, names)

    def test_no_usable_device(self):
        for device, reason in (("nonesuch", "nonesuch"), ("srd+udp:nonesuch0", "nonesuch0")):
            with self.subTest(device=device):
                report = check(WEFT, "--versions", 12, "--log", "warn", WEFT_DEVICE=device)
                self.assertEqual(report.code, 3, report)
                self.assertIn(f"cannot use {device}: ", report.error)
                self.assertIn(reason, report.error)
                self.assertIn("no usable device: set WEFT_DEVICE", report.error)

    def test_a_limit_that_is_no_number_is_logged(self):
        report = check(WEFT, "--versions", 12, "--rules", "connect", "--log", "warn",
                       WEFT_DEVICE=f"srd+{SHM}", WEFT_NCCL_CONNECT_S="1m")
        self.assertEqual(report.code, 0, report)
        self.assertIn("WEFT_NCCL_CONNECT_S=1m is no number of seconds", report.error)

    def test_the_log_names_device_paths_and_controller(self):
        report = check(WEFT, "--versions", 12, "--rules", "zero", "--log", "info",
                       WEFT_DEVICE="nonesuch;srd+udp:lo,cc=swift,paths=8")
        self.assertEqual(report.code, 0, report)
        self.assertRegex(report.error, "WARN .*cannot use nonesuch")
        self.assertRegex(report.error, "INFO .*device 0: srd.udp:lo.*, address 127.*, 8 paths, "
                                       "congestion control swift, 100000 Mb/s")
        self.assertRegex(report.error, "INFO .*NCCL_PROTO=Simple is set")
        self.assertRegex(report.error, "INFO .*sends to host .*, process .* over srd.udp:lo")


if __name__ == "__main__":
    nccl_tools.main()
