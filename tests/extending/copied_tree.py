# SPDX-License-Identifier: BSD-3-Clause
"""A copy of the tree with the port of docs/extending/port.md in it."""
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def copy_with_port(target):
    """Copies what git knows of the tree, and the example port as the page says."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    shutil.copytree(ROOT / "examples/port/providers", target / "providers", dirs_exist_ok=True)


def configure(tree, build):
    command = ["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DWEFT_TESTS=OFF",
               "-DCMAKE_BUILD_TYPE=Debug"]
    return subprocess.run(command, capture_output=True, text=True)
