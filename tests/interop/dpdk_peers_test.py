#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's wires between two processes, memif and vhost, when the other one stands still, goes, or
comes again."""
import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import dpdk_test
import exchanges


def written(process):
    """How many frames the device of a process has sent."""
    return dpdk_test.counted(process.pid, "dpdk_tx_frames")


def is_named(path):
    """Has a socket this name?"""
    return path in pathlib.Path("/proc/net/unix").read_text("ascii")


class StandingStill(unittest.TestCase):
    """The other end of a memif is stopped for a while: nothing waits for ever."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="weft-memif-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.wire = exchanges.Wire({
            exchanges.start_weft(cls, name):
                f"roce+dpdk:net_memif,dpdk.socket={folder}/s,dpdk.address={address}"
            for name, address in (("first", "10.78.0.1"), ("second", "10.78.0.2"))})

    def setUp(self):
        """Resolves the neighbours first: frames sent before would be dropped."""
        self.wire.connect()
        for direction in self.wire.directions():
            move = self.move(direction)
            move.begin()
            move.end(self)

    @staticmethod
    @contextlib.contextmanager
    def stopped(puppet):
        os.kill(puppet.process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(puppet.process, signal.SIGCONT)

    def move(self, direction, operation="write"):
        move = exchanges.Move(self.wire, direction, operation, 500, 5000)
        move.prepare()
        return move

    def test_it_goes_on_in_time(self):
        """More than the ring of 1,024 holds, within the time of the retries."""
        for direction in self.wire.directions():
            with self.subTest(requester=direction[0].name):
                self.wire.connect(timeout=18)  # 1.07 s, eight times
                move = self.move(direction)
                with self.stopped(direction[1]):
                    move.begin()
                    time.sleep(1.5)
                    self.assertEqual(select.select([direction[0].connection], [], [], 0)[0], [])
                move.end(self)
                move.check(self)

    def test_it_goes_on_too_late(self):
        for direction in self.wire.directions():
            with self.subTest(requester=direction[0].name):
                self.wire.connect(timeout=12, retry=3)  # 17 ms
                move = self.move(direction)
                with self.stopped(direction[1]):
                    move.begin()
                    self.assertEqual(direction[0].end()["status"], "retry_exceeded")
                self.wire.connect()
                move = self.move(direction)
                move.begin()
                move.end(self)
                move.check(self)

    def test_datagrams_fill_the_ring(self):
        """UD has no flow control: datagrams that find the ring full are sent later."""
        for source, target in self.wire.directions():
            self.wire.connect(service="ud")
            with self.stopped(target):
                source.begin("run", op="send", count=3000, size=64, offset=0)
                time.sleep(0.5)
                self.assertEqual(select.select([source.connection], [], [], 0)[0], [])
            self.assertEqual(source.end(), {"status": "success", "done": "3000"})


class VhostGone(unittest.TestCase):
    """The vhost is killed: the other process ends as it wants to, not by a signal of a driver that
    writes to it."""

    def test_the_other_process_ends_by_itself(self):
        path = dpdk_test.stale_socket(type(self))
        where = f"roce+dpdk:net_vhost,dpdk.iface={path}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        words = [str(exchanges.BIN / "weft_write_lat"), "-d", where, "-p", port, "-D", "30"]
        first = self.start(words)
        dpdk_test.wait_for(self, lambda: is_named(path))
        second = self.start([*words, "--connect_wait", "30", "127.0.0.1"])
        dpdk_test.wait_for(self, lambda: written(second) > 1000)
        first.kill()
        self.assertGreater(second.wait(timeout=60), 0)

    def start(self, words):
        """The test kills it, whichever way it ends."""
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class MemifServerGone(unittest.TestCase):
    """The process that serves a memif is killed, and another takes its place: the client's device,
    which has lived all the time, has its link again."""

    @classmethod
    def serve(cls, path):
        end = exchanges.start_weft(cls, "server")
        return end, f"roce+dpdk:net_memif,dpdk.socket={path},dpdk.address=10.78.0.1"

    def test_the_next_server(self):
        folder = tempfile.mkdtemp(prefix="weft-memif-")
        self.addCleanup(shutil.rmtree, folder)
        for number, extra in enumerate(("", ",engines=2")):
            path = f"{folder}/{number}"
            server, device_string = self.serve(path)
            client = exchanges.start_weft(type(self), "client")
            wire = exchanges.Wire({
                server: device_string + extra,
                client: device_string.replace("0.1", "0.2") + extra})
            for _ in range(3):
                self.move_all(wire)
                os.kill(server.process, signal.SIGKILL)
                dpdk_test.wait_for(self, lambda at=path: not is_named(at))
                server, _same = self.serve(path)
                wire.open = {server: server.open(device=device_string + extra,
                                                 memory=exchanges.MEMORY),
                             client: wire.open[client]}

    def move_all(self, wire):
        wire.connect()
        for direction in wire.directions():
            move = exchanges.Move(wire, direction, "write", 10, 5000)
            move.prepare()
            move.begin()
            move.end(self)
            move.check(self)


if __name__ == "__main__":
    dpdk_test.main()
