#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NCCL itself over the plug-in: all collectives on two and four ranks, and a rank that is killed.

One GPU is enough: each rank names a host of its own (NCCL_HOSTID), so NCCL takes two ranks on one
GPU for two machines, and no traffic goes through shared memory or peer access. WEFT_NCCL_LIBRARY
names another libnccl.so than the installed one.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import nccl_gpu
import nccl_tools

SHM = f"shm:gpu-{os.getpid()}"
# A message of each size class, odd ones, too: bytes that each rank contributes.
SIZES = (8, 12, 4100, 65536, 1 << 20, (8 << 20) - 4)


def with_one_table(version, directory):
    """A copy of the plug-in in which NCCL finds no table but this one."""
    library = nccl_tools.WEFT.read_bytes()
    for other in set(nccl_tools.VERSIONS) - {version}:
        library = library.replace(b"ncclNetPlugin_v%d\0" % other, b"ncclNetPlugin_x%d\0" % other)
    made = pathlib.Path(directory, f"libnccl-net-table{version}.so")
    made.write_bytes(library)
    return made


class Ranks:
    """Processes of nccl_gpu.py, what they print, and NCCL's log."""

    def __init__(self, count, device, role, *sizes, plugin=nccl_tools.WEFT):
        self.directory = tempfile.TemporaryDirectory()
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("NCCL_")}
        folders = f"{plugin.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        self.all = []
        for rank in range(count):
            with open(self.path("said", rank), "wb") as said, \
                    open(self.path("errors", rank), "wb") as errors:
                self.all.append(subprocess.Popen(
                    [sys.executable, nccl_gpu.__file__, role, str(rank), str(count),
                     self.directory.name, *map(str, sizes)],
                    stdin=subprocess.DEVNULL, stdout=said, stderr=errors,
                    env={**kept, "WEFT_DEVICE": device, "LD_LIBRARY_PATH": folders,
                         "NCCL_NET_PLUGIN": plugin.stem.removeprefix("libnccl-net-"),
                         "NCCL_HOSTID": f"host-{rank}", "NCCL_P2P_DISABLE": "1",
                         "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo",
                         "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(self.path("log", rank))}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.all:
            each.kill()
            each.wait()
        self.directory.cleanup()

    def path(self, kind, rank):
        return pathlib.Path(self.directory.name, f"{kind}-{rank}")

    def text(self, kind, rank):
        path = self.path(kind, rank)
        return path.read_text(errors="replace") if path.exists() else ""

    def line(self, rank, number, limit_s=120):
        """What the rank has printed as this line, from 0, when it has."""
        end = time.monotonic() + limit_s
        while True:
            is_over = self.all[rank].poll() is not None or time.monotonic() > end
            lines = self.text("said", rank).split("\n")
            if number < len(lines) - 1:
                return lines[number]
            if is_over:
                raise AssertionError(f"rank {rank}, code {self.all[rank].poll()}: {lines} "
                                     f"{self.text('errors', rank)}\n"
                                     f"{self.text('log', rank)[-4000:]}")
            time.sleep(0.01)


class Nccl(unittest.TestCase):
    def passes(self, count, device, sizes=SIZES, used=1, plugin=nccl_tools.WEFT):
        """All collectives, over weft and no other network, over `used` of its devices. Returns the
        version of the table that NCCL has used."""
        with Ranks(count, device, "collectives", *sizes, plugin=plugin) as ranks:
            reports = [json.loads(ranks.line(rank, 0)) for rank in range(count)]
            for rank, report in enumerate(reports):
                self.assertEqual(report["wrong"], [], f"rank {rank}")
                self.assertEqual(report["checked"], 18 * len(sizes))
                self.assertIn("Using network weft", ranks.text("log", rank))
                self.assertEqual(set(re.findall(r"via NET/weft/(\d+)", ranks.text("log", rank))),
                                 {str(each) for each in range(used)})
            table = int(re.search(r"Loaded net plugin weft \(v(\d+)\)", ranks.text("log", 0))[1])
            print(f"{count} ranks over {device}: {reports[0]['checked']} collectives, NCCL "
                  f"{reports[0]['nccl']} with table v{table}, {reports[0]['gpu']}", flush=True)
            return table

    def test_udp(self):
        self.passes(2, "srd+udp:lo")
        self.passes(4, "srd+udp:lo")

    def test_every_table_that_this_nccl_knows(self):
        device = f"srd+{SHM}"
        newest = self.passes(2, device, SIZES[:4])
        self.assertIn(newest, nccl_tools.VERSIONS)
        for version in range(nccl_tools.VERSIONS[0], newest):
            with self.subTest(table=version), tempfile.TemporaryDirectory() as directory:
                only = with_one_table(version, directory)
                self.assertEqual(self.passes(2, device, SIZES[:4], plugin=only), version)

    def test_shared_memory(self):
        self.passes(4, f"srd+{SHM}")

    def test_rc(self):
        self.passes(2, "roce+udp:lo")

    def test_what_is_opened_unasked(self):
        """Ranks of one host through shared memory, each connected and registered as by UDP."""
        self.passes(4, "srd+auto:lo")
        self.passes(2, "roce+auto:lo", SIZES[:4])

    def test_protected(self):
        self.passes(2, "srd+udp:lo,secure=psk", SIZES[:4])

    def test_two_devices(self):
        self.passes(2, f"srd+udp:lo;srd+{SHM}", used=2)

    def test_loss_and_reordering(self):
        self.passes(2, "srd+udp:lo,fault.loss=0.01,fault.reorder=0.05")

    def test_large(self):
        self.passes(2, "srd+udp:lo", (64 << 20, (16 << 20) + 4))

    def test_a_killed_rank(self):
        for device in ("srd+auto:lo", "srd+udp:lo", f"srd+{SHM}", "roce+udp:lo"):
            with self.subTest(device=device), Ranks(2, device, "survivor", 8 << 20) as ranks:
                for rank in range(2):
                    self.assertEqual(ranks.line(rank, 0), "ready")
                time.sleep(1)
                killed = time.monotonic()
                ranks.all[1].send_signal(signal.SIGKILL)
                seen = json.loads(ranks.line(0, 1))
                self.assertEqual(seen["code"], nccl_gpu.REMOTE_ERROR, seen)
                self.assertGreater(seen["done"], 0)
                self.assertRegex(ranks.text("log", 0), "NET/weft : .*process")
                aborted = json.loads(ranks.line(0, 2))
                print(f"over {device}: {(seen['seen_at'] - killed) * 1000:.0f} ms from the kill to "
                      f"NCCL's error, {aborted['abort_s'] * 1000:.0f} ms to abort", flush=True)


if __name__ == "__main__":
    if reason := nccl_gpu.why_not():
        nccl_tools.suite.skip(reason)
    else:
        nccl_tools.main()
