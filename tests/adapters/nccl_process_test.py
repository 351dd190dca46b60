#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The plug-in of NCCL in a process that forks, in one that unloads it, as NCCL does with the last
communicator, and in one whose network interface goes down."""
import _ctypes
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import unittest

import nccl_tools
from nccl_abi import REMOTE, SUCCESS, Net

DEVICES = ("srd+udp:lo", "roce+udp:lo", f"srd+shm:process-{os.getpid()}")


def transfer(net, text, pair=None):
    """A message over a connection of the process with itself."""
    send, receive = pair or net.pair()
    out, into = ctypes.create_string_buffer(text), ctypes.create_string_buffer(len(text) + 1)
    _, from_ = net.register(send, out)
    _, to = net.register(receive, into)
    _, receiving = net.repeat(lambda: net.irecv(receive, into, len(into), to), lambda said: said[1])
    _, sending = net.repeat(lambda: net.isend(send, out, len(out), from_), lambda said: said[1])
    for request in (sending, receiving):
        assert net.repeat(lambda: net.test(request), lambda said: said[0] or said[1])[:2] == \
            (SUCCESS, 1), net.log
    assert into.value == text
    net.table.deregister(send, from_)
    net.table.deregister(receive, to)
    net.table.close_send(send)
    net.table.close_receive(receive)


def fork():
    """The child has devices of its own, and the parent's go on, also when the child closes what it
    has inherited."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    inherited = net.pair()
    transfer(net, b"before")
    child = os.fork()
    if child == 0:
        net.table.close_send(inherited[0])
        net.table.close_receive(inherited[1])
        assert net.init() == SUCCESS, net.log
        transfer(net, b"in the child")
        sys.exit(0)
    transfer(net, b"in the parent")
    assert os.waitpid(child, 0)[1] == 0
    transfer(net, b"after the child", inherited)
    print("done")


def fork_and_wait(handle):
    """The peer of outlived(): connects, and has a child that does nothing."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    handle = ctypes.create_string_buffer(bytes.fromhex(handle), 128)
    net.repeat(lambda: net.connect(handle), lambda said: said[0] or said[1])
    child = os.fork()
    if child != 0:
        print(child, flush=True)
    signal.pause()


def outlived():
    """A peer's end is seen although a child of the peer lives on."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    _, listener, handle = net.listen()
    with subprocess.Popen([sys.executable, __file__, "fork_and_wait", handle.raw.hex()],
                          stdout=subprocess.PIPE, text=True) as peer:
        _, comm = net.repeat(lambda: net.accept(listener), lambda said: said[0] or said[1])
        child = int(peer.stdout.readline())
        into = ctypes.create_string_buffer(10)
        _, memory = net.register(comm, into)
        _, request = net.irecv(comm, into, 10, memory)
        assert net.test(request)[:2] == (SUCCESS, 0), net.log
        peer.kill()
        try:
            said = net.repeat(lambda: net.test(request), lambda said: said[0] or said[1])
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)
    assert said[0] == REMOTE, (said, net.log)
    assert "its process has ended" in net.warnings()[-1], net.log
    print("done")


def is_loaded():
    with open("/proc/self/maps", encoding="ascii") as maps:
        return "libnccl-net-weft.so" in maps.read()


def reload():
    """Threads of the plug-in end when it is unloaded."""
    for _ in range(3):
        net = Net(nccl_tools.WEFT)
        assert net.init() == SUCCESS, net.log
        transfer(net, b"loaded")
        assert is_loaded()
        handle = net.handle
        net.table = net.v10 = net.logger = None
        _ctypes.dlclose(handle)
        assert not is_loaded()
        assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")
    print("done")


def lose_link():
    """The log says that the interface is down, and up again; nothing fails meanwhile."""
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    ip("link", "set", "lo", "up")
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
    ip("addr", "add", "10.9.0.1/24", "dev", "v0")
    for name in ("v0", "v1"):
        ip("link", "set", name, "up")
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    send, _ = net.pair()
    buffer = ctypes.create_string_buffer(10)
    _, memory = net.register(send, buffer)
    for state, text in (("down", "v0: the network interface is down"),
                        ("up", "v0: the network interface is up again")):
        ip("link", "set", "v0", state)
        net.repeat(lambda: net.isend(send, buffer, 10, memory),
                   lambda said, text=text: said[0] or any(text in line for line in net.warnings()))
    print("done")


def why_no_namespace():
    """Why this machine has no network namespace with a veth for us, or None."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "a network namespace with a veth needs root and iproute2"
    done = subprocess.run(["unshare", "-n", "ip", "link", "add", "v0", "type", "veth"],
                          capture_output=True, check=False)
    return None if done.returncode == 0 else "no network namespace with a veth"


class Processes(unittest.TestCase):
    def runs(self, role):
        for device in DEVICES:
            with self.subTest(device=device):
                done = subprocess.run([sys.executable, __file__, role], capture_output=True,
                                      text=True, timeout=60,
                                      env={**os.environ, "WEFT_DEVICE": device})
                self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done)

    def test_fork(self):
        self.runs("fork")

    def test_a_child_outlives_the_peer(self):
        self.runs("outlived")

    def test_it_is_unloaded(self):
        self.runs("reload")

    def test_the_link_goes_down(self):
        if reason := why_no_namespace():
            self.skipTest(reason)
        done = subprocess.run(["unshare", "-n", sys.executable, __file__, "link"],
                              capture_output=True, text=True, timeout=60,
                              env={**os.environ, "WEFT_DEVICE": "srd+udp:v0"})
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done)


if __name__ == "__main__":
    ROLES = {"fork": fork, "outlived": outlived, "fork_and_wait": fork_and_wait, "reload": reload,
             "link": lose_link}
    if len(sys.argv) > 1 and sys.argv[1] in ROLES:
        ROLES[sys.argv[1]](*sys.argv[2:])
    elif nccl_tools.sanitized():
        nccl_tools.suite.skip("Python cannot load a library with a sanitizer")
    else:
        nccl_tools.suite.run()
