#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the kernel of the interop tests, once: User Mode Linux with rdma_rxe, of Debian's source.

Such a kernel is an ordinary program that boots in a tenth of a second, needs no privilege, and
runs the very rxe that a host with the module runs. The build takes three to six minutes of two
idle cores and 1.6 GB of disk; 10 MB are kept in ${XDG_CACHE_HOME:-~/.cache}/weft, under a name
made from all that goes into it.

  tests/interop/kernel.py           builds it unless it is there, prints its path
  tests/interop/kernel.py --path    prints its path; exit code 1 if it is not built
"""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

CONFIG = pathlib.Path(__file__).with_name("kernel.config")
SOURCE = pathlib.Path("/usr/src/linux-source-6.1.tar.xz")
# (file, as it is, as it has to be, why)
CHANGES = (
    ("arch/x86/um/user-offsets.c", "HOST_FP_SIZE, 2696", "HOST_FP_SIZE, 11008",
     "processors with AMX have larger registers, and every process dies with `ptrace set fp regs`"),
    ("arch/um/Kconfig", "default 100", "default 1000",
     "two programs that poll take turns once per tick"),
)


class Missing(Exception):
    """Something that this machine lacks, and what to do about it."""


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "weft"


def path():
    """Where the kernel is or will be; its name stands for source, configuration and changes."""
    if not SOURCE.exists():
        raise Missing(f"no {SOURCE}: install linux-source-6.1 (./dev interop does)")
    stamp = SOURCE.stat()
    key = f"{stamp.st_size} {int(stamp.st_mtime)} {CHANGES}".encode() + CONFIG.read_bytes()
    return cache() / f"uml-6.1-{hashlib.sha256(key).hexdigest()[:12]}"


def why_not():
    """Why there is no guest to test with, or None."""
    if not list(pathlib.Path("/usr/include/infiniband").glob("verbs.h")):
        return "libibverbs-dev was missing at build"
    try:
        if not path().exists():
            return "the guest's kernel is not built: ./dev guests builds it"
    except Missing as missing:
        return str(missing)
    return None


def change(tree):
    for name, old, new, _ in CHANGES:
        file = tree / name
        text = file.read_text(encoding="utf-8")
        if old not in text:
            raise Missing(f"{name} of {SOURCE} has no `{old}`: adapt CHANGES in {__file__}")
        file.write_text(text.replace(old, new), encoding="utf-8")


def compile_in(folder, kernel):
    def run(*words):
        with open(folder / "log", "a", encoding="utf-8") as log:
            done = subprocess.run(words, stdout=log, stderr=log, check=False)
        if done.returncode:
            tail = (folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise Missing(f"{' '.join(words)} failed:\n{tail}")

    run("tar", "-xf", str(SOURCE), "-C", str(folder))
    tree = next(folder.glob("linux-source-*"))
    change(tree)
    shutil.copy(CONFIG, tree / ".config")
    jobs = os.environ.get("WEFT_JOBS") or str(os.cpu_count())
    make = ("nice", "-n", "15", "make", "-C", str(tree), "ARCH=um", "-j", jobs)
    run(*make, "olddefconfig")
    run(*make, "linux")
    run("strip", "-o", str(folder / "kernel"), str(tree / "linux"))
    (folder / "kernel").rename(kernel)


def build():
    """The path of the kernel, which is built if it is not there. A second caller waits."""
    kernel = path()
    kernel.parent.mkdir(parents=True, exist_ok=True)
    with open(kernel.with_name(kernel.name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kernel.exists():
            folder = kernel.with_name(kernel.name + ".build")
            shutil.rmtree(folder, ignore_errors=True)  # of a build that was killed
            folder.mkdir()
            compile_in(folder, kernel)
            shutil.rmtree(folder)
    return kernel


def main():
    try:
        if sys.argv[1:] == ["--path"]:
            print(path())
            return 0 if path().exists() else 1
        print(build())
        return 0
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
