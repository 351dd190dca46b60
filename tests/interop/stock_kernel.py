#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fetches the other kernel of the interop tests, once: Debian's own, unchanged, for QEMU.

Nothing is installed and nothing compiled: the package is taken apart, and what a guest boots is
kept in ${XDG_CACHE_HOME:-~/.cache}/weft (70 MB), under a name made from the kernel's version and
all that goes into it: the kernel as an ELF file, and a first root with the modules that rdma_rxe,
the wire and netem need, which then makes this machine's root its own.

  tests/interop/stock_kernel.py           fetches it unless it is there (70 MB), prints its path
  tests/interop/stock_kernel.py --path    prints its path; exit code 1 if it is not there
"""
import fcntl
import gzip
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from kernel import Missing, cache

PACKAGE = "linux-image-amd64"  # stands for the newest one
XZ = b"\xfd7zXZ\x00"
BUSYBOX = pathlib.Path("/bin/busybox")
MODULES = """virtio_pci virtio_net virtio_rng 9p 9pnet_virtio af_packet crc32_generic crc32_pclmul
rdma_rxe rdma_ucm ib_uverbs ib_umad dummy ifb veth
sch_netem sch_ingress cls_matchall act_mirred tun sch_multiq cls_flower act_skbedit""".split()
# The root is this machine's, read only; /mnt is the folder that the test and its guest share.
# nosuid: seen from a user's namespace mount(8) is not root's.
INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
while read module; do
  /bin/busybox insmod /modules/$module || echo "guest: no $module"
done </modules/list
nine=trans=virtio,version=9p2000.L,msize=262144
/bin/busybox mount -t 9p -o ro,nosuid,$nine,cache=loose root /new || echo "guest: no root"
/bin/busybox mount -t 9p -o $nine,cache=none folder /new/mnt || echo "guest: no folder"
exec /bin/busybox chroot /new "$weft_init"
"""


def recipe():
    return hashlib.sha256(f"{INIT}{MODULES}".encode()).hexdigest()[:12]


def path():
    """The folder with `vmlinux` and `initramfs`, or None."""
    there = list(cache().glob(f"stock-*-{recipe()}/vmlinux"))
    return max(there, key=lambda file: file.stat().st_mtime).parent if there else None


def version():
    return re.sub(r"^stock-|-[^-]*$", "", path().name)


def why_not():
    """Why there is no such guest to test with, or None."""
    if not shutil.which("qemu-system-x86_64"):
        return "no qemu-system-x86_64: install qemu-system-x86 (./dev interop does)"
    return None if path() else "Debian's kernel is not there: ./dev guests"


def run(*words, cwd=None, data=None):
    try:
        done = subprocess.run(words, cwd=cwd, input=data, capture_output=True, check=False)
    except FileNotFoundError as missing:
        raise Missing(f"no {words[0]}: ./dev guests installs what is needed") from missing
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Missing(f"{' '.join(map(str, words))}: {said}")
    return done.stdout


def fetch(folder):
    """The files of the package, below `folder`."""
    names = re.findall(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", PACKAGE).decode())
    if not names:
        raise Missing(f"apt knows no {PACKAGE}: apt-get update, then again")
    run("apt-get", "-qq", "download", names[0], cwd=folder)
    tree = folder / "tree"
    run("dpkg", "-x", str(next(folder.glob("*.deb"))), str(tree))
    return tree


def unpacked(vmlinuz):
    """The ELF file inside: QEMU starts it twice as fast as what decompresses itself."""
    data = vmlinuz.read_bytes()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data[data.index(XZ):])


def modules(tree, release):
    """The files that MODULES are in and need, each behind those that it needs."""
    run("depmod", "-b", str(tree), release)
    files = []
    for name in MODULES:
        said = run("modprobe", "-d", str(tree), "-S", release, "--show-depends", name).decode()
        for file in re.findall(r"^insmod (\S+)", said, re.MULTILINE):
            if file not in files:
                files.append(file)
    return [pathlib.Path(file) for file in files]


def first_root(folder, files):
    """A compressed cpio archive, made from what is put into `folder`."""
    for name in ("bin", "proc", "new", "modules", "dev"):
        (folder / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "bin")
    for file in files:
        shutil.copy(file, folder / "modules")
    (folder / "modules/list").write_text("".join(f"{file.name}\n" for file in files),
                                         encoding="ascii")
    init = folder / "init"
    init.write_text(INIT, encoding="ascii")
    init.chmod(init.stat().st_mode | stat.S_IXUSR)
    names = "\n".join(str(file.relative_to(folder)) for file in sorted(folder.rglob("*")))
    return gzip.compress(run("cpio", "-o", "-H", "newc", cwd=folder, data=names.encode()), 1)


def make(folder):
    """What path() is to name, made below `folder`; and its version."""
    if not BUSYBOX.exists():
        raise Missing(f"no {BUSYBOX}: install busybox-static (./dev guests does)")
    tree = fetch(folder)
    vmlinuz = next(tree.glob("boot/vmlinuz-*"))
    release = vmlinuz.name.removeprefix("vmlinuz-")
    made = folder / "made"
    made.mkdir()
    (made / "initramfs").write_bytes(first_root(folder / "root", modules(tree, release)))
    (made / "vmlinux").write_bytes(unpacked(vmlinuz))
    return made, release


def get():
    """path(), fetched if it is not there. A second caller waits."""
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "stock.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path():
            with tempfile.TemporaryDirectory(dir=cache()) as name:
                made, release = make(pathlib.Path(name))
                os.replace(made, cache() / f"stock-{release}-{recipe()}")
    return path()


def main():
    try:
        there = path() if sys.argv[1:] == ["--path"] else get()
        print(there or "not there")
        return 0 if there else 1
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
