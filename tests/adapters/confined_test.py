#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs where there is little: few descriptors, no locked memory, no /dev/shm, system
calls refused as in a container, and two users on one host. Each works, or weft-run says why not."""
import ctypes
import errno
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest

import drop_in

OTHER_USER = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable  # which all users may run
LIMIT_S = 60
# x86-64 numbers of what the default profile of a container without capabilities refuses with EPERM.
REFUSED = {
    "ptrace": 101, "personality": 135, "pivot_root": 155, "mount": 165, "umount2": 166,
    "init_module": 175, "settimeofday": 164, "mbind": 237, "set_mempolicy": 238,
    "get_mempolicy": 239, "add_key": 248, "request_key": 249, "keyctl": 250, "move_pages": 279,
    "unshare": 272, "perf_event_open": 298, "name_to_handle_at": 303, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "bpf": 321,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "pidfd_getfd": 438, "quotactl": 179}
CLONE3 = 435  # ENOSYS there, so that the C library takes clone


def refuse_system_calls():
    """Installs a seccomp filter in this process, for what it executes too."""
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    def step(code, on_true, on_false, value):
        return struct.pack("HBBI", code, on_true, on_false, value)
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    error, allow = 0x00050000, 0x7FFF0000
    steps = [step(load, 0, 0, 0)]
    for number, code in [*((n, errno.EPERM) for n in REFUSED.values()), (CLONE3, errno.ENOSYS)]:
        steps += [step(equal, 0, 1, number), step(give, 0, 0, error | code)]
    steps.append(step(give, 0, 0, allow))
    code = b"".join(steps)
    program = Program(len(steps), code)
    library = ctypes.CDLL(None, use_errno=True)
    for call in ((38, 1, 0, 0, 0), (22, 2, ctypes.byref(program), 0, 0)):  # NO_NEW_PRIVS, SECCOMP
        if library.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def transfer(device):
    """A pingpong that compares its bytes, with polls and with events."""
    for options in (["-c"], ["-e"]):
        port = drop_in.free_port()
        words = ["ibv_rc_pingpong", "-p", str(port), "-g", "0", "-n", "50", *options]
        drop_in.pair(words, [*words, "127.0.0.1"], drop_in.at_port(port), device=device)


def holds_port(process):
    """Whether a program that weft-run has started has UDP port 4791 open."""
    folder = pathlib.Path(f"/proc/{process}")
    if folder.joinpath("comm").read_text().strip() == "weft-run":
        return False
    sockets = {line.split()[9] for line in pathlib.Path("/proc/net/udp").read_text().splitlines()
               if ":12B7 " in line}
    return any(f"socket:[{inode}]" == os.readlink(fd) for inode in sockets
               for fd in list(folder.joinpath("fd").iterdir()) if fd.is_symlink())


class Confined(unittest.TestCase):
    def inside(self, *before, devices=(drop_in.UDP, drop_in.SHM), seccomp=False):
        """Runs transfers in a process that `before` starts."""
        for device in devices:
            with self.subTest(device=device):
                done = subprocess.run(
                    [*before, PYTHON, __file__, "--seccomp" if seccomp else "--inside", device],
                    capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
                    env=drop_in.environment())
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def needs_root(self, *programs):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        if drop_in.missing(*programs):
            self.skipTest(drop_in.missing(*programs))

    def needs_namespace(self, *words):
        self.needs_root("unshare")
        if subprocess.run(["unshare", *words, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no namespaces here")

    def test_few_descriptors_and_no_locked_memory(self):
        if drop_in.missing("prlimit"):
            self.skipTest(drop_in.missing("prlimit"))
        self.inside("prlimit", "--nofile=256", "--memlock=0")

    def test_too_few_descriptors_are_told(self):
        if drop_in.missing("prlimit"):
            self.skipTest(drop_in.missing("prlimit"))
        done = subprocess.run(["prlimit", "--nofile=8", drop_in.RUN, "-d", drop_in.UDP, "true"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              env=drop_in.environment())
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "descriptors|Too many open files")

    def test_system_calls_that_containers_refuse(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the numbers of system calls are those of x86-64")
        self.inside(seccomp=True)

    def test_no_shared_memory_folder(self):
        """In a network namespace of its own: who sees another folder there knows of no other
        device of the address, and both receive each other's frames."""
        self.needs_namespace("-m", "-n")
        self.needs_root("ip")
        for options in ("ro", "mode=0700,uid=1"):  # not writable; of someone else
            user = OTHER_USER if options != "ro" else []
            self.inside("unshare", "-m", "-n", "sh", "-c",
                        f'ip link set lo up && mount -t tmpfs -o {options} none /dev/shm && '
                        'exec "$@"', "sh", *user)

    def test_a_second_user_on_loopback(self):
        self.needs_root("setpriv")
        holder = drop_in.Process(["ibv_asyncwatch", "-d", "weft0"], drop_in.UDP, (), LIMIT_S)
        try:
            while not holds_port(holder.process.pid):
                self.assertFalse(holder.finished(), holder.described())
                time.sleep(0.01)
            first = self.gid_of_loopback()
            second = self.gid_of_loopback(*OTHER_USER)
            self.assertFalse(holder.finished(), holder.described())
            self.assertRegex(second, r"::ffff:127\.\d+\.0\.1")
            self.assertNotEqual(first, second)
            self.inside(*OTHER_USER)
        finally:
            holder.close()

    def gid_of_loopback(self, *before):
        done = subprocess.run([*before, drop_in.RUN, "-d", drop_in.UDP, "ibv_devinfo", "-v"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=True,
                              env=drop_in.environment())
        return re.search(r"GID\[ *0\]:\s+(\S+),", done.stdout).group(1)

    def test_a_second_user_on_an_interface_is_told_who_has_it(self):
        self.needs_namespace("-n")
        self.needs_root("setpriv", "ip")
        other = " ".join(OTHER_USER)
        script = ("ip link set lo up; ip link add weft9 type veth peer name weft8; "
                  "ip addr add 10.99.0.1/24 dev weft9; ip link set weft9 up; "
                  '"$0" -d roce+udp:weft9 ibv_asyncwatch -d weft0 & holder=$!; '
                  'until [ "$(cat /proc/$holder/comm)" = ibv_asyncwatch ] && '
                  "grep -q :12B7 /proc/net/udp; do sleep 0.01; done; "  # 4791
                  "for i in $(seq 100); do "
                  f'{other} "$0" -d roce+udp:weft9 true 2>&1 || break; sleep 0.1; done; '
                  "kill $holder")
        done = subprocess.run(["unshare", "-n", "sh", "-c", script, drop_in.RUN],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              env=drop_in.environment())
        self.assertRegex(done.stdout, "UDP port 4791 of 10.99.0.1 is held by another .*of user 0")


if __name__ == "__main__":
    if sys.argv[1:2] in (["--inside"], ["--seccomp"]):
        if sys.argv[1] == "--seccomp":
            refuse_system_calls()
        transfer(sys.argv[2])
    else:
        drop_in.main("ibv_rc_pingpong", "ibv_asyncwatch", "ibv_devinfo")
