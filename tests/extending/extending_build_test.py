#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# ctest: long
"""The page docs/extending/port.md, followed: the example port is copied into a copy of the tree,
which is built and moves data over it. Takes minutes of processor time.
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

import copied_tree


class Port(unittest.TestCase):
    def test_data_moves_over_the_new_port(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "weft"
            copied_tree.copy_with_port(tree)
            build = tree / "build"
            done = copied_tree.configure(tree, build)
            self.assertEqual(done.returncode, 0, done.stderr)
            made = subprocess.run(["cmake", "--build", build, "--target", "hello_write",
                                   "weft_info"], capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stdout[-4000:])
            listed = subprocess.run([build / "bin/weft_info"], capture_output=True, text=True)
            self.assertRegex(listed.stdout, r"roce\+local:default +usable")
            ran = subprocess.run([build / "bin/hello_write"], capture_output=True, text=True,
                                 env={**os.environ, "WEFT_DEVICE": "roce+local:copied"})
            self.assertEqual(ran.returncode, 0, ran.stderr)


if __name__ == "__main__":
    unittest.main()
