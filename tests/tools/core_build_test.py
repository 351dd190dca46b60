#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The core (WEFT_CORE, what ./dev run builds): which sources it has, and with --long that it builds
and measures."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of a newcomer's five minutes these would take ten.
LEFT_OUT = ["lib/sim/", "lib/collective/", "lib/job/", "lib/message/", "lib/adapters/verbs/",
            "providers/ibverbs/ibverbs_", "providers/port/dpdk/dpdk_"]
NEEDED = ["lib/roce/", "lib/srd/", "providers/port/udp/", "providers/port/shm/",
          "bench/perftest/weft_write_lat.cpp", "bench/raw/raw_udp.cpp", "tools/report/"]


class Core(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        subprocess.run(["cmake", "--preset", "core", "-B", self.build], cwd=ROOT, check=True,
                       capture_output=True)

    def test_compiles_what_the_measurement_needs(self):
        commands = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "programs"],
                                  check=True, capture_output=True, text=True).stdout
        sources = commands + "".join(p.read_text() for p in self.build.rglob("unity_*.cxx"))
        for folder in LEFT_OUT:
            self.assertNotIn(f"{ROOT}/{folder}", sources)
        for folder in NEEDED:
            self.assertIn(f"{ROOT}/{folder}", sources)

    @unittest.skipUnless(os.environ.get("WEFT_TEST_LONG"), "builds for minutes: --long")
    def test_builds_and_measures(self):
        subprocess.run(["ninja", "-C", self.build, "programs"], check=True, capture_output=True)
        command = [self.build / "bin/weft_report", "--seconds", "0.02", "--sizes", "8"]
        report = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("0 wrong: data verified", report.stdout)


if __name__ == "__main__":
    unittest.main()
