#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A folder of providers/port is a port without a line elsewhere: in a copy of the tree with the
example port, CMake lists it and tidy finds no problem. extending_build_test.py builds it."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import copied_tree


class Port(unittest.TestCase):
    def test_a_folder_is_a_port(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "weft"
            copied_tree.copy_with_port(tree)
            done = copied_tree.configure(tree, tree / "build")
            self.assertEqual(done.returncode, 0, done.stderr)
            listed = tree / "build/generated/weft_software/port_folders.cpp"
            self.assertIn("port_in_local", listed.read_text())
            self.assertIn("libweft_port_local.a", (tree / "build/build.ninja").read_text())
            said = subprocess.run([sys.executable, tree / "tests/tidy/tidy.py"],
                                  capture_output=True, text=True).stdout
            self.assertNotIn("providers/port/local", said)

    def test_documents_list_every_port_and_provider(self):
        for page in ("docs/providers.md", "docs/support-matrix.md"):
            text = (copied_tree.ROOT / page).read_text()
            for kind in ("port/*/port.cpp", "*/provider.cpp"):
                for source in (copied_tree.ROOT / "providers").glob(kind):
                    self.assertIn(f"`{source.parent.name}`", text, page)


if __name__ == "__main__":
    unittest.main()
