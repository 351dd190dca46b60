#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft's API over verbs over weft: the conformance suite through the provider `ibverbs`, on the
drop-in libibverbs.so.1 and librdmacm.so.1, whose device is `roce`. What the provider translates to
verbs the drop-in library translates back, so each value makes the way both ways.

Without WEFT_TEST_LONG a part of the suite; its cases are counted and printed.
"""
import os
import re
import subprocess
import unittest

import drop_in

LONG = bool(os.environ.get("WEFT_TEST_LONG"))
DEVICE = (f"ibverbs:weft0,library={drop_in.LIBRARIES}/libibverbs.so.1,"
          f"cm_library={drop_in.LIBRARIES}/librdmacm.so.1")
# Cases in each file of tests/conformance. Not here: effects (the provider has no FLUSH),
# ibverbs_device (the kernel's addresses).
QUICK = {"ops": 13, "states": 13, "cq": 8, "window": 16, "srq": 4, "memory": 4, "unreliable": 7,
         "regions": 6, "port_query": 2, "dmabuf": 1, "multicast": 2, "moderation": 3, "xrc": 4,
         "api_cm": 8, "full_queues": 5}
MORE = {"errors": 14, "progress": 5, "threads": 3, "processes": 4, "big": 3}


class Suite(unittest.TestCase):
    def run_file(self, name, cases):
        done = subprocess.run(
            [drop_in.BUILD / "bin/conformance_tests", "-#", f"[ibverbs][#{name}_test]"],
            env=drop_in.environment(WEFT_TEST_DEVICE=DEVICE, WEFT_VERBS_DEVICES=drop_in.UDP),
            capture_output=True, text=True, timeout=600, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        count = re.search(r"in (\d+) test case", said)
        self.assertTrue(count, said)
        self.assertEqual(int(count.group(1)), cases, said)
        print(f"{name}: {cases} cases")


def add(name, cases):
    setattr(Suite, f"test_{name}", lambda self: self.run_file(name, cases))


for file, number in {**QUICK, **(MORE if LONG else {})}.items():
    add(file, number)


class Recursion(unittest.TestCase):
    """Under weft-run the provider does not find weft's own devices by itself."""

    def test_weft_info_lists_no_device_of_the_drop_in(self):
        output = drop_in.succeed(drop_in.BUILD / "bin/weft_info")
        self.assertNotIn("ibverbs:weft0", output)
        self.assertIn("libibverbs.so.1 of this process is weft's own", output)

    def test_a_device_of_the_drop_in_is_opened_by_its_library_only(self):
        info = drop_in.BUILD / "bin/weft_info"
        code, output = drop_in.run(info, "-d", "ibverbs:weft0")
        self.assertNotEqual(code, 0)
        self.assertIn("library=FILE", output)
        self.assertIn("weft0", drop_in.succeed(info, "-d", DEVICE))


if __name__ == "__main__":
    drop_in.main()
