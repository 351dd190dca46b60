#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The functions of the plug-in of NCCL one by one. When they are used wrongly, or the peer fails,
the error is a line in NCCL's log that names the object, the values and what to do."""
import ctypes
import mmap
import os
import pathlib
import random
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import nccl_tools
from nccl_abi import CUDA, INTERNAL, REMOTE, SUCCESS, USAGE, Net

SEED = int(os.environ.get("WEFT_TEST_SEED", random.randrange(1 << 32)))


def serve():
    """A rank that prints its handle, accepts what comes, and posts two receives if it shall; ends
    with standard input."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    _, listener, handle = net.listen()
    print(handle.raw.hex(), flush=True)
    accepts = "accept" in sys.argv
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        if accepts:
            result, comm = net.accept(listener)
            print(end="".join(f"{text}\n" for text in net.warnings()), flush=True)
            net.log.clear()
            accepts = result == SUCCESS and comm is None
            if comm and "receive" in sys.argv:
                buffer = ctypes.create_string_buffer(100)
                memory = net.register(comm, buffer)[1]
                for _ in range(2):
                    assert net.irecv(comm, buffer, 100, memory)[1], net.log


def violate_keys():
    """As NCCL does after an abort: sends meet memory that is no longer registered, on as many
    connections as `roce` forgives a peer, and then there are new connections."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    buffer = ctypes.create_string_buffer(100)
    pairs, requests = [net.pair() for _ in range(20)], []
    for ends in pairs:
        (_, out), (_, into) = (net.register(end, buffer) for end in ends)
        net.irecv(ends[1], buffer, 100, into)
        net.table.deregister(ends[1], into)
        requests.append(net.repeat(lambda: net.isend(ends[0], buffer, 100, out),
                                   lambda said: said[1])[1])
    result, _, _ = net.repeat(lambda: net.test(requests[0]), lambda said: said[0] or said[1])
    print(result, net.warnings()[0])
    net.log.clear()
    start = time.monotonic()
    net.pair()
    print(len(net.warnings()), time.monotonic() - start)


def send_with_class():
    """What is captured has the class that connect() of version 10 was given."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    ends, buffer = net.pair(traffic_class=0x68), ctypes.create_string_buffer(100)
    requests = []
    for post, end in ((net.irecv, ends[1]), (net.isend, ends[0])):
        _, memory = net.register(end, buffer)
        requests.append(net.repeat(lambda: post(end, buffer, 100, memory), lambda said: said[1])[1])
    for request in requests:
        net.repeat(lambda: net.test(request), lambda said: said[1])


def classes_in(file):
    """The traffic classes, without ECN, of the IPv4 packets of a capture."""
    data, found, at = file.read_bytes(), set(), 24
    ip_at = {1: 14, 101: 0}[struct.unpack_from("<I", data, 20)[0]]
    while at < len(data):
        length, = struct.unpack_from("<I", data, at + 8)
        found.add(data[at + 16 + ip_at + 1] & 0xFC)
        at += 16 + length
    return found


def give_up_a_silent_peer():
    """The peer's process is stopped: nothing says that it has ended."""
    net = Net(nccl_tools.WEFT)
    assert net.init() == SUCCESS, net.log
    peer = Peer(os.environ["WEFT_DEVICE"], "accept", "receive")
    try:
        _, send = net.repeat(lambda: net.connect(peer.handle), lambda said: said[1])
        buffer = ctypes.create_string_buffer(100)
        _, memory = net.register(send, buffer)
        for stopped in (False, True):
            if stopped:
                time.sleep(0.3)  # its second receive is announced by its own thread
                peer.process.send_signal(signal.SIGSTOP)
                os.waitpid(peer.process.pid, os.WUNTRACED)  # it has stopped
            _, request = net.repeat(lambda: net.isend(send, buffer, 10, memory),
                                    lambda said: said[1])
            result, done, _ = net.repeat(lambda: net.test(request), lambda said: said[0] or said[1])
            print(result, done, *net.warnings())
    finally:
        peer.end()


class Peer:
    """Another rank, with a WEFT_DEVICE of its own."""

    def __init__(self, device, *words):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve", *words], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "WEFT_DEVICE": device})
        self.handle = ctypes.create_string_buffer(
            bytes.fromhex(self.process.stdout.readline()), 128)

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.communicate()


class Errors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ["WEFT_DEVICE"] = "srd+udp:lo"
        cls.net = Net(nccl_tools.WEFT)
        assert cls.net.init() == SUCCESS, cls.net.log

    def setUp(self):
        self.net.log.clear()
        os.environ.pop("WEFT_NCCL_CONNECT_S", None)

    def says(self, *patterns):
        text = "\n".join(self.net.warnings())
        for pattern in patterns:
            self.assertRegex(text, pattern)

    def pair(self):
        send, receive = self.net.pair()
        self.addCleanup(self.net.table.close_send, send)
        self.addCleanup(self.net.table.close_receive, receive)
        return send, receive

    def peer(self, device, *words):
        peer = Peer(device, *words)
        self.addCleanup(peer.end)
        return peer

    def fails_to_connect(self, handle, *patterns):
        result, comm = self.net.repeat(lambda: self.net.connect(handle), lambda said: said[0])
        self.assertIsNone(comm)
        self.says("cannot connect to 127", *patterns)
        return result

    def test_no_such_device(self):
        self.assertEqual(self.net.listen(7)[0], INTERNAL)
        self.says("there is no device 7: devices.. says 1")

    def test_handles_that_no_listener_has_written(self):
        _, listener, handle = self.net.listen()
        self.addCleanup(self.net.table.close_listen, listener)
        whole = bytearray(handle.raw)
        choice = random.Random(SEED)
        wrong = [bytes(128), b"\xff" * 128, choice.randbytes(128)]
        for _ in range(200):
            changed = bytearray(whole)
            changed[choice.randrange(48)] ^= 1 << choice.randrange(8)
            wrong.append(bytes(changed))
        for each in wrong:
            with self.subTest(seed=SEED, handle=each.hex()):
                self.net.log.clear()
                result, comm = self.net.connect(ctypes.create_string_buffer(each, 128))
                self.assertEqual((result, comm), (INTERNAL, None))
                self.says("the handle given to connect.. .*NCCL_NET_PLUGIN=weft")

    def test_a_number_of_a_connection_that_was_not_begun(self):
        _, listener, handle = self.net.listen()
        self.addCleanup(self.net.table.close_listen, listener)
        handle[48:56] = b"\x41" * 8
        self.assertEqual(self.net.connect(handle), (SUCCESS, None))  # begins one

    def test_the_listener_is_gone(self):
        _, listener, handle = self.net.listen()
        self.net.table.close_listen(listener)
        self.fails_to_connect(handle, "there is no listener any more")

    def test_half_open(self):
        os.environ["WEFT_NCCL_CONNECT_S"] = "0.3"
        _, listener, handle = self.net.listen()
        self.addCleanup(self.net.table.close_listen, listener)
        self.assertEqual(self.fails_to_connect(handle, "has not called accept", "CONNECT_S"),
                         REMOTE)

    def test_the_listening_rank_dies(self):
        peer = self.peer("srd+udp:lo")
        self.assertEqual(self.net.connect(peer.handle), (SUCCESS, None))
        peer.end()
        self.assertEqual(self.fails_to_connect(peer.handle), REMOTE)

    def test_other_devices(self):
        for device in ("roce+udp:lo", f"srd+shm:errors-{os.getpid()}"):
            with self.subTest(device=device):
                self.net.log.clear()
                peer = self.peer(device, "accept")
                self.fails_to_connect(
                    peer.handle, r"srd.udp:lo, .* uses (roce.udp|srd.shm).* same WEFT_DEVICE|"
                    r"(roce.udp|srd.shm).* uses srd.udp:lo: give all ranks the same WEFT_DEVICE")
                self.assertRegex(peer.process.stdout.readline(), "same WEFT_DEVICE")

    def test_connections_without_the_handle_do_not_hold_up_the_listener(self):
        _, listener, handle = self.net.listen()
        port, = struct.unpack_from("<H", handle.raw, 10)
        address = ".".join(map(str, handle.raw[24:28]))
        others = [socket.create_connection((address, port)) for _ in range(5)]
        for number, each in enumerate(others):
            self.addCleanup(each.close)
            each.sendall((b"GET / HTTP/1.0\r\n\r\n", b"wnc1\1\0\xff\xff", b"", b"w",
                          b"wnc1\1\0\x20\0" + bytes(32))[number])
        send = receive = None
        while send is None or receive is None:
            if send is None:
                result, send = self.net.connect(handle)
                self.assertEqual(result, SUCCESS)
            if receive is None:
                result, receive = self.net.accept(listener)
                self.assertEqual(result, SUCCESS, self.net.log)
        for close, comm in (("send", send), ("receive", receive), ("listen", listener)):
            getattr(self.net.table, f"close_{close}")(comm)

    def transfer(self, ends, data, memories, size):
        _, receive = self.net.repeat(
            lambda: self.net.irecv(ends[1], data[1], size, memories[1]), lambda said: said[1])
        _, send = self.net.repeat(
            lambda: self.net.isend(ends[0], data[0], size, memories[0]), lambda said: said[1])
        for request in (send, receive):
            self.assertEqual(
                self.net.repeat(lambda: self.net.test(request), lambda said: said[0] or said[1]),
                (SUCCESS, 1, size))

    def test_memory_of_a_descriptor(self):
        ends, size = self.pair(), 1 << 16
        fds, maps, data, memories = [], [], [], []
        for end in ends:
            fds.append(os.memfd_create("nccl"))
            os.ftruncate(fds[-1], size)
            maps.append(mmap.mmap(fds[-1], size))
            data.append((ctypes.c_char * size).from_buffer(maps[-1]))
            memory = ctypes.c_void_p()
            self.assertEqual(self.net.table.register_dmabuf(
                end, ctypes.addressof(data[-1]), size, 1, 0, fds[-1], ctypes.byref(memory)),
                SUCCESS, self.net.log)
            os.close(fds[-1])
            memories.append(memory.value)
        data[0][:5] = b"hello"
        self.transfer(ends, data, memories, size)
        self.assertEqual(data[1][:5], b"hello")
        for end, memory in zip(ends, memories):
            self.assertEqual(self.net.table.deregister(end, memory), SUCCESS)

    def test_memory_of_a_gpu(self):
        send, _ = self.pair()
        buffer = ctypes.create_string_buffer(100)
        self.assertNotEqual(self.net.register(send, buffer, CUDA)[0], SUCCESS)
        self.says("host memory only")

    def test_memory_that_is_not_mapped(self):
        send, _ = self.pair()
        memory = ctypes.c_void_p()
        self.assertNotEqual(self.net.table.register(send, 4096, 4096, 1, ctypes.byref(memory)),
                            SUCCESS)
        self.says("not mapped")

    def test_outside_of_the_registered_memory(self):
        send, receive = self.pair()
        buffer = ctypes.create_string_buffer(100)
        _, memory = self.net.register(receive, buffer)
        self.addCleanup(self.net.table.deregister, receive, memory)
        self.assertEqual(self.net.irecv(receive, buffer, 101, memory)[0], INTERNAL)
        self.says("host .*process .*irecv.. of 101 bytes that lie outside")

    def test_a_send_larger_than_its_receive(self):
        send, receive = self.pair()
        buffer = ctypes.create_string_buffer(100)
        ends = []
        for comm in (send, receive):
            result, memory = self.net.register(comm, buffer)
            self.assertEqual(result, SUCCESS)
            self.addCleanup(self.net.table.deregister, comm, memory)
            ends.append(memory)
        result, posted = self.net.irecv(receive, buffer, 50, ends[1])
        self.assertEqual(result, SUCCESS)
        result, _ = self.net.repeat(lambda: self.net.isend(send, buffer, 100, ends[0]),
                                    lambda said: said[0] or said[1])
        self.assertEqual(result, USAGE)
        self.says("a send of 100 bytes meets a receive of 50 bytes with tag 1")
        result, *_ = self.net.repeat(lambda: self.net.test(posted), lambda said: said[0])
        self.assertEqual(result, REMOTE)
        self.says("process .*: its end has failed: a send of 100 bytes meets")

    def test_wrong_keys_delay_connections_and_fail_none(self):
        done = subprocess.run([sys.executable, __file__, "violate"], capture_output=True, text=True,
                              timeout=60, env={**os.environ, "WEFT_DEVICE": "roce+udp:lo"})
        self.assertEqual(done.returncode, 0, done)
        first, second = done.stdout.splitlines()
        print("connected again after", second.split()[1], "s")
        self.assertRegex(first, f"{REMOTE} .*remote_access_error .memory was deregistered")
        self.assertEqual(second.split()[0], "0")

    def test_a_silent_peer_is_given_up(self):
        for device in ("srd+udp:lo,patience_ms=300", "roce+udp:lo"):
            with self.subTest(device=device):
                done = subprocess.run([sys.executable, __file__, "silent"], capture_output=True,
                                      text=True, timeout=60,
                                      env={**os.environ, "WEFT_DEVICE": device})
                self.assertEqual(done.returncode, 0, done)
                first, second = done.stdout.splitlines()
                self.assertEqual(first, f"{SUCCESS} 1")
                self.assertRegex(second, f"{REMOTE} 0 host .*retry_exceeded .no answer")

    def test_traffic_classes(self):
        for provider in ("srd", "roce"):
            with self.subTest(provider=provider), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "frames.pcap"
                done = subprocess.run(
                    [sys.executable, __file__, "class"], capture_output=True, text=True, timeout=60,
                    env={**os.environ, "WEFT_DEVICE": f"{provider}+udp:lo,pcap={file}"})
                self.assertEqual(done.returncode, 0, done)
                self.assertIn(0x68, classes_in(file))

    def test_no_descriptors_left(self):
        _, listener, handle = self.net.listen()
        self.addCleanup(self.net.table.close_listen, listener)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(1)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            result, comm = self.net.connect(handle)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        self.assertIsNone(comm)
        self.assertNotEqual(result, SUCCESS)
        self.says("connect: .*(descriptor|Too many open files|ulimit)")

    def test_connections_leak_nothing(self):
        def cycle():
            ends = self.net.pair()
            _, memory = self.net.register(ends[1], buffer)
            self.net.irecv(ends[1], buffer, 100, memory)
            self.net.table.deregister(ends[1], memory)
            self.net.table.close_send(ends[0])
            self.net.table.close_receive(ends[1])
            self.net.log.clear()

        def held():
            with open("/proc/self/statm", encoding="ascii") as statm:
                return int(statm.read().split()[1]) * 4, len(os.listdir("/proc/self/fd"))

        buffer = ctypes.create_string_buffer(100)
        for _ in range(100):
            cycle()
        memory, descriptors = held()
        for _ in range(30_000 if os.environ.get("WEFT_TEST_LONG") else 1000):
            cycle()
        self.assertLess(held()[0] - memory, 1024, "KiB in all connections")
        self.assertEqual(held()[1], descriptors)

    def test_a_dead_peer_is_named(self):
        peer = self.peer("srd+udp:lo", "accept")
        _, send = self.net.repeat(lambda: self.net.connect(peer.handle), lambda said: said[1])
        self.addCleanup(self.net.table.close_send, send)
        buffer = ctypes.create_string_buffer(100)
        _, memory = self.net.register(send, buffer)
        self.addCleanup(self.net.table.deregister, send, memory)
        peer.end()
        start = time.monotonic()
        result, _ = self.net.repeat(lambda: self.net.isend(send, buffer, 100, memory),
                                    lambda said: said[0])
        print(f"a dead peer was seen after {1000 * (time.monotonic() - start):.0f} ms")
        self.assertEqual(result, REMOTE)
        self.says(rf"host .*process {peer.process.pid} .*its process has ended")


if __name__ == "__main__":
    ROLES = {"serve": serve, "violate": violate_keys, "silent": give_up_a_silent_peer,
             "class": send_with_class}
    if len(sys.argv) > 1 and sys.argv[1] in ROLES:
        ROLES[sys.argv[1]]()
    elif nccl_tools.sanitized():
        nccl_tools.suite.skip("Python cannot load a library with a sanitizer")
    else:
        nccl_tools.suite.run()
