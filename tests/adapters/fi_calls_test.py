#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls of libfabric on our providers that its programs do not make: fi_calls.c for weft,
fi_msg_calls.c for weft_msg. Each case is a process."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import drop_in

FOLDER = pathlib.Path(__file__).resolve().parent
PROVIDERS = drop_in.BUILD / "lib/libfabric"
LIMIT_S = 40


class Calls(unittest.TestCase):
    def check(self, name, device):
        with tempfile.TemporaryDirectory(prefix="weft-fi-") as folder:
            program = pathlib.Path(folder, name)
            subprocess.run([shutil.which("cc"), "-Wall", "-Werror", "-o", program,
                            FOLDER / f"{name}.c", "-lfabric", "-pthread"], check=True)
            cases = subprocess.run([program], capture_output=True, text=True, check=True)
            self.assertTrue(cases.stdout)
            for case in cases.stdout.split():
                with self.subTest(case=case):
                    process = drop_in.Process([program, case], limit=LIMIT_S, launcher=None,
                                              variables={"FI_PROVIDER_PATH": str(PROVIDERS),
                                                         "WEFT_DEVICE": device})
                    try:
                        self.assertEqual(process.wait(), 0, process.output())
                    finally:
                        process.close()

    def test_datagrams(self):
        self.check("fi_calls", "srd+udp:lo")

    def test_connected(self):
        self.check("fi_msg_calls", "roce+udp:lo")


if __name__ == "__main__":
    if not (PROVIDERS / "libweft-fi.so").exists():
        drop_in.suite.skip("built without libfabric-dev, or with sanitizers")
    elif drop_in.missing("cc"):
        drop_in.suite.skip(drop_in.missing("cc"))
    else:
        drop_in.suite.run()
