#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_doctor on machines that are folders, as they should be and with one difference each, and on
this one."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()

STATUS = "Name:\tx\nCpus_allowed_list:\t{cores}\nCapEff:\t{rights}\nSeccomp:\t{seccomp}\n"
LIMITS = "Max locked memory         {locked}   {locked}   bytes\n" \
         "Max open files            {files}   {files}   files\n"
MEMORY = "MemTotal:       {kib} kB\nHugePages_Free:      {huge}\nHugepagesize:       2048 kB\n"
# As a machine for weft is: text of each file.
GOOD = {
    "proc/self/status": STATUS.format(cores="0-3,8", rights="000001ffffffffff", seccomp=0),
    "proc/self/limits": LIMITS.format(locked="unlimited", files=65536),
    "proc/self/cgroup": "0::/job\n",
    "proc/meminfo": MEMORY.format(kib=8 << 20, huge=256),
    "proc/mounts": "tmpfs /dev/shm tmpfs rw,nosuid 0 0\n",
    "proc/cpuinfo": "flags\t\t: fpu pclmulqdq vpclmulqdq\n",
    "proc/sys/net/core/rmem_max": "4194304\n",
    "proc/sys/kernel/yama/ptrace_scope": "1\n",
    "sys/fs/cgroup/job/cpu.max": "max 100000\n",
    "sys/fs/cgroup/job/memory.max": "max\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_min_freq": "800000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3200000\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/class/net/eth0/operstate": "up\n",
    "sys/class/net/eth0/mtu": "9000\n",
    "sys/class/net/eth1/operstate": "down\n",
    "sys/class/net/eth1/mtu": "1500\n",
    "sys/class/net/lo/operstate": "unknown\n",
    "sys/class/net/lo/mtu": "65536\n",
    "sys/class/infiniband/mlx5_0/node_desc": "x\n",
    "dev/infiniband/uverbs0": "",
    "ethtool/eth0": "generic-segmentation-offload: on\ngeneric-receive-offload: on\n",
}
# A difference from that machine, and what is to change then: the finding, and parts of its texts.
CHANGES = {
    "one core": ("proc/self/status", STATUS.format(cores="3", rights="1ffffffffff", seccomp=0),
                 "cores", ["3", "taskset"]),
    "a container's share": ("sys/fs/cgroup/job/cpu.max", "150000 100000",
                            "limit of the processor's time", ["1.5 cores", "--cpus", "100 ms"]),
    "a governor that saves": ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave",
                              "governor of the clock rate", ["powersave", "cpupower", "4 times"]),
    "a slow clock": ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet",
                     "clock", ["hpet", "tsc=reliable"]),
    "an old processor": ("proc/cpuinfo", "flags : fpu sse2", "instructions for the ICRC",
                         ["none", "pclmulqdq", "20 times"]),
    "little locked memory": ("proc/self/limits", LIMITS.format(locked=8 << 20, files=65536),
                             "memory that may be locked", ["8 MiB", "ulimit -l", "memlock=-1"]),
    "few descriptors": ("proc/self/limits", LIMITS.format(locked="unlimited", files=256),
                        "files open at a time", ["256", "ulimit -n 1024"]),
    "no huge pages": ("proc/meminfo", MEMORY.format(kib=8 << 20, huge=0), "free huge pages",
                      ["0 of 2048", "nr_hugepages"]),
    "a small /dev/shm": ("proc/mounts", "tmpfs /dev/shm tmpfs rw,size=16384k 0 0\n", "/dev/shm",
                         ["16 MiB", "--shm-size"]),
    "no /dev/shm": ("proc/mounts", "proc /proc proc rw 0 0\n", "/dev/shm", ["not there", "mount"]),
    "a container's memory": ("sys/fs/cgroup/job/memory.max", str(64 << 20), "limit of memory",
                             ["64 MiB", "--memory"]),
    "frames of 1500": ("sys/class/net/eth0/mtu", "1500", "MTU of eth0",
                       ["1500", "1024", "mtu 4200", "1/4 of the packets"]),
    "no offload": ("ethtool/eth0",
                   "generic-segmentation-offload: off\ngeneric-receive-offload: off [fixed]\n",
                   "offloads of eth0", ["off", "ethtool -K eth0", "gso on", "gro on"]),
    "small buffers": ("proc/sys/net/core/rmem_max", "212992", "buffer of a socket, at most",
                      ["212992", "sysctl -w net.core.rmem_max=4194304"]),
    "no raw frames": ("proc/self/status", STATUS.format(cores="0-3", rights="0", seccomp=0),
                      "right to use af_packet", ["CAP_NET_RAW", "--cap-add=NET_RAW"]),
    "a seccomp filter": ("proc/self/status", STATUS.format(cores="0-3", rights="0", seccomp=2),
                         "reading the memory of one's other processes",
                         ["process_vm_readv", "SYS_PTRACE", "once instead of twice"]),
    "no RDMA files": ("dev/infiniband/uverbs0", None, "RDMA devices",
                      ["mlx5_0", "/dev/infiniband", "ib_uverbs"]),
}


def run(*words):
    return subprocess.run([BUILD / "bin/weft_doctor", *words], capture_output=True, text=True,
                          timeout=60, check=False)


class Doctor(unittest.TestCase):
    def look(self, **files):
        """The findings on the good machine with other `files`, by name."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **files}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                if text is not None:
                    path.write_text(text, encoding="ascii")
            done = run("--json", "--root", folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {finding["what"]: finding for finding in json.loads(done.stdout)}

    def test_a_good_machine(self):
        found = self.look()
        self.assertEqual([f for f in found.values() if "change" in f or "gain" in f], [])
        self.assertEqual(found["cores"]["found"], "0-3,8")
        self.assertEqual(found["/dev/shm"]["found"], "4096 MiB")  # half of the memory
        self.assertNotIn("MTU of eth1", found)  # it is down
        self.assertNotIn("MTU of lo", found)

    def test_each_change(self):
        for what, (file, text, finding, parts) in CHANGES.items():
            with self.subTest(what=what):
                found = self.look(**{file: text})[finding]
                self.assertTrue(found.get("change") and found.get("gain"), found)
                for part in parts:
                    self.assertIn(part, " ".join(found.values()))

    def test_text(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("--root", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{folder}/proc/self/status", done.stderr)

    def test_this_machine(self):
        done = run()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^(good|change) +cores: [0-9,-]+ \(")
        self.assertRegex(done.stdout, r"\n\d+ to change\n$")


if __name__ == "__main__":
    unittest.main()
