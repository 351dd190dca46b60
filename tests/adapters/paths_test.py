#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""/dev/infiniband and /sys/class/infiniband* as programs see them under weft-run: programs of the
system, Python, and each interposed function of the C library by ctypes."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import drop_in

DEVICES = f"{drop_in.UDP};{drop_in.SHM}"
SYS, VERBS, DEV = "/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband"
PORT = f"{SYS}/weft0/ports/1"
PYTHON = "/usr/bin/python3"
# What a script below needs: the C library's functions as the program finds them.
CTYPES = """
import ctypes, errno, os, stat
c = ctypes.CDLL(None, use_errno=True)
c.fopen.restype = c.opendir.restype = c.readdir.restype = c.realpath.restype = ctypes.c_void_p
c.canonicalize_file_name.restype = c.telldir.restype = ctypes.c_void_p
def error(result, bad=-1):
    assert result == bad, result
    return errno.errorcode[ctypes.get_errno()]
def name(entry):  # struct dirent: inode, offset, length, type, name
    return ctypes.string_at(entry + 19).decode()
"""


def machine_has_devices():
    return os.path.isdir(SYS) and os.listdir(SYS)


class Programs(unittest.TestCase):
    def output_of(self, *words):
        return drop_in.succeed(*words, device=DEVICES)

    def shell(self, script):
        return self.output_of("bash", "-c", script)

    def test_ls(self):
        self.assertIn("weft0\nweft1\n", self.output_of("ls", SYS))
        listed = self.output_of("ls", "-l", DEV)
        self.assertRegex(listed, r"(?m)^crw-rw-rw- .* 231, 193 .* uverbs1$")
        self.assertRegex(listed, r"(?m)^crw-rw-rw- .* rdma_cm$")
        deep = self.output_of("ls", "-R", f"{SYS}/weft1")
        for folder, names in (("ports/1/gid_attrs", "ndevs\ntypes"), ("ports", "1")):
            self.assertIn(f"\n{SYS}/weft1/{folder}:\n{names}\n", deep)
        self.assertEqual(len(self.output_of("ls", f"{PORT}/gids").split()), 16)
        self.assertEqual(self.output_of("ls", f"{SYS}/weft0/device/net"), "lo\n")

    def test_cat(self):
        for path, form in ((f"{SYS}/weft0/node_type", r"1: CA"),
                           (f"{SYS}/weft0/node_guid", r"([0-9a-f]{4}:){3}[0-9a-f]{4}"),
                           (f"{SYS}/weft0/hca_type", r"weft"), (f"{SYS}/weft0/board_id", r"\S+"),
                           (f"{SYS}/weft0/fw_ver", r"\S+"),
                           (f"{SYS}/weft0/device/numa_node", r"-?\d+"),
                           (f"{SYS}/weft0/device/local_cpus", r"[0-9a-f]{8}(,[0-9a-f]{8})*"),
                           (f"{SYS}/weft0/device/vendor", r"0x[0-9a-f]{4}"),
                           (f"{SYS}/weft0/device/net/lo/mtu", r"\d+"),
                           (f"{SYS}/weft0/device/net/lo/address", r"(00:){5}00"),
                           (f"{PORT}/state", r"4: ACTIVE"), (f"{PORT}/phys_state", r"5: LinkUp"),
                           (f"{PORT}/link_layer", r"Ethernet"), (f"{PORT}/lid", r"0x0"),
                           (f"{PORT}/rate", r"[\d.]+ Gb/sec \(\d+X \w+\)"),
                           (f"{PORT}/pkeys/0", r"0xffff"),
                           (f"{PORT}/gids/0", r"([0-9a-f]{4}:){7}[0-9a-f]{4}"),
                           (f"{PORT}/gids/15", r"(0000:){7}0000"),
                           (f"{PORT}/gid_attrs/types/0", r"RoCE v2"),
                           (f"{PORT}/gid_attrs/ndevs/0", r"lo"),
                           (f"{PORT}/counters/port_xmit_data", r"\d+"),
                           (f"{PORT}/hw_counters/sent_pkts", r"\d+"),
                           (f"{VERBS}/abi_version", r"6"), (f"{VERBS}/uverbs1/ibdev", r"weft1"),
                           (f"{VERBS}/uverbs1/dev", r"231:193")):
            with self.subTest(path=path):
                self.assertRegex(self.output_of("cat", path), f"^{form}\n$")

    def test_stat_test_and_readlink(self):
        self.assertEqual(self.output_of("stat", "-c", "%F %a %t:%T", f"{DEV}/uverbs0"),
                         "character special file 666 e7:c0\n")
        self.assertEqual(self.output_of("stat", "-c", "%F %a %s", f"{PORT}/lid"),
                         "regular file 444 4096\n")
        self.assertEqual(self.shell(f"""
            test -c {DEV}/uverbs0 && test -r {DEV}/uverbs0 && test -w {DEV}/uverbs0 && echo 1
            test -d {PORT} && test -x {PORT} && test ! -c {PORT} && echo 2
            test -f {PORT}/lid && test -r {PORT}/lid && echo 3"""), "1\n2\n3\n")
        self.assertEqual(self.output_of("readlink", "-f", f"{SYS}//weft0/./ports/../hca_type"),
                         f"{SYS}/weft0/hca_type\n")

    def test_what_is_not_in_the_view(self):
        for path in (f"{SYS}/weft2", f"{SYS}/weft00", f"{SYS}/weft", f"{SYS}/weft0/nonesuch",
                     f"{PORT}/gids/16", f"{PORT}/gids/01", f"{PORT}/pkeys/1", f"{PORT}/gid",
                     f"{DEV}/uverbs2", f"{SYS}x", f"{SYS}_verbs/uverbs0/nonesuch",
                     f"{SYS}/weft0/device/net/nonesuch", f"{SYS}/weft0/device/net/lo/nonesuch",
                     f"{SYS}/weft1/device/net",  # shared memory has no interface
                     f"{SYS}/weft0/node_guid/x", f"{SYS}/weft18446744073709551616"):
            with self.subTest(path=path):
                code, output = drop_in.run("stat", path, device=DEVICES)
                self.assertEqual(code, 1)
                self.assertIn("No such file or directory", output)
        self.assertNotEqual(drop_in.run("cat", f"{PORT}/gid_attrs/types/15", device=DEVICES)[0], 0)

    def test_nothing_can_be_written(self):
        for script, reason in ((f"echo 1 > {PORT}/lid", "Permission denied"),
                               (f"echo 1 > {PORT}/new", "No such file"),
                               (f"cat < {DEV}/uverbs0", "No such device")):
            code, output = drop_in.run("bash", "-c", script, device=DEVICES)
            self.assertNotEqual(code, 0)
            self.assertIn(reason, output)
        self.assertEqual(self.shell(f"test -w {PORT}/lid || echo no"), "no\n")

    def test_no_file_is_on_a_disk(self):
        self.assertIn("/memfd:weft-paths", self.shell(f"readlink /proc/self/fd/0 < {PORT}/lid"))

    def test_names_are_those_of_libibverbs(self):
        if drop_in.missing("ibv_devices"):
            self.skipTest(drop_in.missing("ibv_devices"))
        listed = re.findall(r"(weft\d)\s+([0-9a-f]{16})", self.output_of("ibv_devices"))
        self.assertEqual([name for name, _ in listed], ["weft0", "weft1"])
        for name, guid in listed:
            text = self.output_of("cat", f"{SYS}/{name}/node_guid")
            self.assertEqual(text.strip().replace(":", ""), guid)

    def test_what_the_machine_has_is_seen_beside_it(self):
        if machine_has_devices():
            self.skipTest("the machine has devices")
        folder = tempfile.mkdtemp(prefix="weft-paths-")
        self.addCleanup(shutil.rmtree, folder)
        there = pathlib.Path(folder) / "infiniband"
        there.mkdir()
        for name in ("uverbs1", "issm0"):
            (there / name).write_text("of the machine\n")
        script = (f"mount --bind {folder} /dev && {drop_in.RUN} -d '{DEVICES}' "
                  f"sh -c 'ls {DEV}; cat {DEV}/uverbs1; stat -c %F {DEV}/uverbs0'")
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script], text=True, timeout=60,
                              env=drop_in.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.PIPE, check=False)
        if "unshare" in done.stderr or "mount" in done.stderr:
            self.skipTest(f"no mount namespace: {done.stderr.strip()}")
        self.assertEqual(done.stdout, "issm0\nrdma_cm\nuverbs0\nuverbs1\nof the machine\n"
                         "character special file\n", done.stderr)


class Functions(unittest.TestCase):
    """Each function by itself, in a Python process."""

    def run_script(self, script):
        return drop_in.succeed(PYTHON, "-c", CTYPES + script, device=DEVICES)

    def test_python(self):
        self.assertEqual(self.run_script(f"""
import glob, pathlib
print([name for name in sorted(os.listdir('{SYS}')) if name.startswith('weft')])
print(sorted(glob.glob('{SYS}/weft*/ports/*/pkeys/*')))
print(next(os.walk('{SYS}/weft1/device'))[2] != [], pathlib.Path('{PORT}').is_dir())
print([entry.is_dir() for entry in os.scandir('{SYS}/weft0/ports')])
print(stat.S_ISCHR(os.stat('{DEV}/uverbs1').st_mode), os.path.realpath('{PORT}/../1'))
print(open('{PORT}/link_layer').read(), end='')
"""), f"""['weft0', 'weft1']
['{SYS}/weft0/ports/1/pkeys/0', '{SYS}/weft1/ports/1/pkeys/0']
True True
[True]
True {PORT}
Ethernet
""")

    def test_open_and_fopen(self):
        self.run_script(f"""
lid, folder = b'{PORT}/lid', b'{PORT}'
for call in (c.open, c.open64, c.__open_2, c.__open64_2):
    fd = call(lid, os.O_RDONLY)
    assert os.read(fd, 100) == b'0x0\\n' and os.read(fd, 1) == b''
    assert os.get_inheritable(fd)
    assert not os.get_inheritable(call(lid, os.O_RDONLY | os.O_CLOEXEC))
    assert error(call(lid, os.O_RDWR)) == 'EACCES'
    assert error(call(folder, os.O_RDONLY)) == 'ENOTSUP'
    assert error(call(folder, os.O_WRONLY)) == 'EISDIR'
    assert error(call(lid, os.O_RDONLY | os.O_DIRECTORY)) == 'ENOTDIR'
    assert error(call(b'{DEV}/uverbs0', os.O_RDWR)) == 'ENXIO'
    assert error(call(folder + b'/new', os.O_RDONLY)) == 'ENOENT'
    assert error(call(None, os.O_RDONLY)) == 'EFAULT'
for call in (c.openat, c.openat64, c.__openat_2, c.__openat64_2):
    assert os.read(call(7777, lid, os.O_RDONLY), 100) == b'0x0\\n'
for call in (c.fopen, c.fopen64):
    call.restype = ctypes.c_void_p
    file = call(lid, b're')
    text = ctypes.create_string_buffer(10)
    assert c.fread(text, 1, 10, ctypes.c_void_p(file)) == 4 and text.value == b'0x0\\n'
    assert error(call(lid, b'r+'), None) == error(call(lid, b'w'), None) == 'EACCES'
""")

    def test_stat_and_access(self):
        self.run_script(f"""
lid, device, none = b'{PORT}/lid', b'{DEV}/uverbs1', b'{PORT}/none'
status = ctypes.create_string_buffer(256)
def mode_of(call, *words):
    assert call(*words, status) == 0, call
    return int.from_bytes(status[24:28], 'little')  # x86-64 and others: st_mode
for call in (c.stat, c.stat64, c.lstat, c.lstat64):
    assert stat.S_ISCHR(mode_of(call, device)) and stat.S_ISREG(mode_of(call, lid))
    assert error(call(none, status)) == 'ENOENT'
for call in (c.__xstat, c.__xstat64, c.__lxstat, c.__lxstat64):
    assert stat.S_ISCHR(mode_of(call, 1, device))
for call in (c.fstatat, c.fstatat64):
    assert call(-100, device, status, 0) == 0
for call in (c.__fxstatat, c.__fxstatat64):
    assert call(1, -100, device, status, 0) == 0
assert c.statx(-100, device, 0, 0x7ff, status) == 0
assert int.from_bytes(status[28:30], 'little') == stat.S_IFCHR | 0o666
for call in (c.access, c.eaccess, c.euidaccess, lambda *words: c.faccessat(-100, *words, 0)):
    assert call(device, os.R_OK | os.W_OK) == call(lid, os.R_OK) == 0
    assert call(b'{PORT}', os.R_OK | os.X_OK) == 0
    assert error(call(lid, os.W_OK)) == error(call(device, os.X_OK)) == 'EACCES'
    assert error(call(none, os.F_OK)) == 'ENOENT'
""")

    def test_directories(self):
        self.run_script(f"""
def pointer(value): return ctypes.c_void_p(value)
gids = [str(i) for i in range(16)]
for read in (c.readdir, c.readdir64):
    read.restype = ctypes.c_void_p
    stream = pointer(c.opendir(b'{PORT}/gids'))
    names = []
    while (entry := read(stream)) is not None: names.append(name(entry))
    assert names == ['.', '..', *gids], names
    c.rewinddir(stream)
    assert name(read(stream)) == '.'
    read(stream)
    place = pointer(c.telldir(stream))
    assert name(read(stream)) == '0' and name(read(stream)) == '1'
    c.seekdir(stream, place)
    assert name(read(stream)) == '0'
    assert error(c.dirfd(stream)) == 'ENOTSUP'
    assert c.closedir(stream) == 0
for read in (c.readdir_r, c.readdir64_r):
    stream = pointer(c.opendir(b'{PORT}/gids'))
    entry, result, names = ctypes.create_string_buffer(280), ctypes.c_void_p(), []
    while read(stream, entry, ctypes.byref(result)) == 0 and result.value is not None:
        names.append(name(ctypes.addressof(entry)))
    assert names == ['.', '..', *gids] and c.closedir(stream) == 0
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
    lambda a, b: (a > b) - (a < b))
for scan, sort in ((c.scandir, c.alphasort), (c.scandir64, c.alphasort64)):
    found = ctypes.POINTER(ctypes.c_void_p)()
    count = scan(b'{PORT}/gids', ctypes.byref(found), None, sort)
    assert [name(found[i]) for i in range(count)] == sorted(['.', '..', *gids])
    assert scan(b'/proc/self/task', ctypes.byref(found), None, None) >= 3
    assert error(scan(b'{PORT}/none', ctypes.byref(found), None, None)) == 'ENOENT'
assert error(c.opendir(b'{PORT}/lid'), None) == 'ENOTDIR'
# Streams of the machine while one of the view is open.
stream, other = pointer(c.opendir(b'{PORT}/gids')), pointer(c.opendir(b'/proc/self/task'))
assert name(c.readdir(other)) == '.' and c.dirfd(other) >= 0
place = pointer(c.telldir(other))
c.seekdir(other, place)
c.rewinddir(other)
assert c.closedir(other) == c.closedir(stream) == 0
""")

    def test_links(self):
        self.run_script(f"""
text = ctypes.create_string_buffer(4096)
for call in (lambda path: c.readlink(path, text, 4096),
             lambda path: c.readlinkat(-100, path, text, 4096),
             lambda path: c.__readlink_chk(path, text, 4096, 4096)):
    assert error(call(b'{PORT}/lid')) == 'EINVAL' and error(call(b'{PORT}/x')) == 'ENOENT'
assert c.realpath(b'{SYS}//weft0/.', text) and text.value == b'{SYS}/weft0'
assert ctypes.string_at(c.realpath(b'{SYS}/weft0/', None)) == b'{SYS}/weft0'
assert ctypes.string_at(c.canonicalize_file_name(b'{SYS}/weft0/')) == b'{SYS}/weft0'
assert error(c.realpath(b'{SYS}/weft0/device', text), None) == 'ENOENT'
assert error(c.realpath(b'{SYS}/weft9', text), None) == 'ENOENT'
""")


if __name__ == "__main__":
    drop_in.main()
