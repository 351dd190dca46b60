#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks of the plug-in of NCCL in two network namespaces with two links between them, of which
one goes down while data flows: no request fails, and no byte is wrong. That link may be the one of
the TCP connection, which ends by it; that the peer dies is seen all the same."""
import ctypes
import os
import shutil
import subprocess
import sys
import time
import unittest

import nccl_tools
from nccl_abi import REMOTE, SUCCESS, Net

SIZE, DEPTH, LINKS = 64 << 10, 8, 2
CUT_AFTER, MESSAGES = 300, 1500
LATER, TCP_ENDS_S = 100, 5.5  # further messages when TCP has given up, which takes 4 s


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True)


def open_net(side):
    """The plug-in on the addresses of this side, 1 or 2."""
    ip("link", "set", "lo", "up")
    for link in range(LINKS):
        ip("addr", "add", f"10.8.{link}.{side}/24", "dev", f"side{side}_{link}")
        ip("link", "set", f"side{side}_{link}", "up")
    time.sleep(0.3)  # both ends of a link are up
    os.environ["WEFT_DEVICE"] = f"srd+udp:10.8.0.{side},rails=10.8.1.{side}"
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    return net


def pattern(number):
    return bytes([number % 251 + 1]) * SIZE


class Slots:
    """Messages in flight, each in a part of its own of registered memory."""

    def __init__(self, net, comm):
        self.net, self.comm = net, comm
        self.buffers = [ctypes.create_string_buffer(SIZE) for _ in range(DEPTH)]
        self.memories = [net.register(comm, buffer)[1] for buffer in self.buffers]
        self.requests = [None] * DEPTH

    def post(self, number, function):
        at = number % DEPTH
        result, self.requests[at] = function(self.comm, self.buffers[at], SIZE, self.memories[at])
        assert result == SUCCESS, self.net.log
        return self.requests[at] is not None

    def finish(self, number):
        result, done, size = self.net.test(self.requests[number % DEPTH])
        assert result == SUCCESS, self.net.log
        assert not done or size == SIZE
        return done


def run(slots, function, before=lambda number, buffer: None, after=lambda number, buffer: None):
    """Posts and finishes all messages in their order."""
    posted = finished = 0
    limit = time.monotonic() + 60
    while finished < MESSAGES + LATER:
        assert time.monotonic() < limit, (posted, finished, slots.net.log)
        if finished >= MESSAGES:
            time.sleep(0.002)
        if posted < min(MESSAGES + LATER, finished + DEPTH):
            before(posted, slots.buffers[posted % DEPTH])
            posted += slots.post(posted, function)
        if finished < posted and slots.finish(finished):
            after(finished, slots.buffers[finished % DEPTH])
            finished += 1


def receive():
    sys.stdin.readline()  # the links are there
    net = open_net(2)
    _, listener, handle = net.listen()
    print(handle.raw.hex(), flush=True)
    _, comm = net.repeat(lambda: net.accept(listener), lambda said: said[0] or said[1])
    gaps, last = [], time.monotonic()

    def check(number, buffer):
        nonlocal last
        assert buffer.raw == pattern(number), number
        now = time.monotonic()
        gaps.append(now - last)
        last = now

    run(Slots(net, comm), net.irecv, after=check)
    print(f"longest gap {1000 * max(gaps[1:MESSAGES]):.0f} ms", flush=True)
    sys.stdin.readline()


def outlive(net, comm, peer):
    """Kills the peer: without TCP, and with nothing in flight, this is seen, too."""
    peer.kill()
    buffer = ctypes.create_string_buffer(8)
    _, memory = net.register(comm, buffer)
    limit = time.monotonic() + 30
    result = SUCCESS
    while result == SUCCESS:
        assert time.monotonic() < limit, net.log
        result, request = net.isend(comm, buffer, 8, memory)
        assert request is None
        time.sleep(0.05)
    assert result == REMOTE, (result, net.log)
    assert "a transfer to it failed" in net.warnings()[-1], net.log


def send(cut):
    with subprocess.Popen(["unshare", "-n", sys.executable, __file__, "receive"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
        deadline = time.monotonic() + 10  # until it has left our namespace
        while os.readlink(f"/proc/{peer.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert time.monotonic() < deadline
        for link in range(LINKS):
            ip("link", "add", f"side1_{link}", "type", "veth", "peer", "name", f"side2_{link}",
               "netns", peer.pid)
        print("", file=peer.stdin, flush=True)
        net = open_net(1)
        handle = ctypes.create_string_buffer(bytes.fromhex(peer.stdout.readline()), 128)
        _, comm = net.repeat(lambda: net.connect(handle), lambda said: said[0] or said[1])

        waited = []

        def fill(number, buffer):
            if number == CUT_AFTER:
                ip("link", "set", f"side1_{cut}", "down")
            if number == MESSAGES + DEPTH and not waited:
                time.sleep(TCP_ENDS_S)
                waited.append(True)
            ctypes.memmove(buffer, pattern(number), SIZE)

        run(Slots(net, comm), net.isend, before=fill)
        print(peer.stdout.readline(), end="")
        if any("TCP to it is lost" in line for line in net.warnings()):
            print("TCP is lost")
            outlive(net, comm, peer)
        peer.stdin.close()


class Paths(unittest.TestCase):
    def cut(self, link):
        done = subprocess.run(["unshare", "-n", sys.executable, __file__, "send", str(link)],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("longest gap", done.stdout)
        print(done.stdout, end="")
        return done.stdout

    def test_the_second_link_goes_down(self):
        self.assertNotIn("TCP is lost", self.cut(1))

    def test_the_first_link_goes_down_and_tcp_with_it(self):
        self.assertIn("TCP is lost", self.cut(0))


def why_not():
    if nccl_tools.sanitized():
        return "Python cannot load a library with a sanitizer"
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces with veth links need root and iproute2"
    done = subprocess.run(["unshare", "-n", "ip", "link", "add", "v0", "type", "veth"],
                          capture_output=True, check=False)
    return None if done.returncode == 0 else "no network namespaces with veth links"


if __name__ == "__main__":
    ROLES = {"send": send, "receive": receive}
    if len(sys.argv) > 1 and sys.argv[1] in ROLES:
        ROLES[sys.argv[1]](*sys.argv[2:])
    elif reason := why_not():
        nccl_tools.suite.skip(reason)
    else:
        nccl_tools.suite.run()
