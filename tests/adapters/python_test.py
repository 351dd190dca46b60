#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package weft over sockets and shared memory: both sides are in this process."""
import array
import asyncio
import gc
import os
import pathlib
import re
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release")).resolve()
sys.path.insert(0, str(BUILD / "lib/python"))


def missing():
    cache = (BUILD / "CMakeCache.txt").read_text()
    if re.search(r"^WEFT_SANITIZE:\w+=\S", cache, re.M):
        return "built with sanitizers, which python3 does not load"
    try:
        import cffi  # noqa: F401
    except ImportError:
        return "not installed: python3-cffi"
    return None


if missing():
    print(f"SKIPPED: adapters/python_test: {missing()}")
    sys.exit(0)

import weft  # noqa: E402

PORTS = ("udp:lo", "shm:test-python")
SECONDS = 10


class Side:
    def __init__(self, device, type=weft.QpType.RC, size=1 << 16, **sizes):
        self.device = weft.Device(device)
        self.cq = self.device.completion_queue()
        self.pd = self.device.protection_domain()
        self.memory = bytearray(size)
        self.region = self.pd.register(self.memory)
        self.qp = self.pd.queue_pair(self.cq, type=type, **sizes)

    def next(self):
        return self.cq.wait(SECONDS, 1)[0]


def joined(device, type=weft.QpType.RC, **sizes):
    """Two sides, connected by threads as two processes would be."""
    a, b = Side(device, type, **sizes), Side(device, type, **sizes)
    with weft.Listener("127.0.0.1:0") as listener:
        def accept():
            b.peer = listener.accept(b.qp, private_data=b"from b", timeout=SECONDS)
        thread = threading.Thread(target=accept)
        thread.start()
        a.peer = weft.connect(f"127.0.0.1:{listener.port}", a.qp, private_data=b"from a",
                              timeout=SECONDS)
        thread.join()
    return a, b


class OnBothPorts(unittest.TestCase):
    def each(self, provider="roce"):
        for port in PORTS:
            with self.subTest(port=port):
                yield f"{provider}+{port}"

    def test_reliable_connection(self):
        for device in self.each():
            a, b = joined(device)
            self.assertEqual((a.peer.private_data, b.peer.private_data), (b"from b", b"from a"))
            self.assertEqual((a.peer.qpn, a.qp.state), (b.qp.number, weft.QpState.RTS))
            b.qp.post_recv(b.region[100:200], id=7)
            a.qp.post_send(b"inline", imm=99, id=3)
            self.assertEqual(a.next().check().id, 3)
            got = b.next().check()
            self.assertEqual((got.id, got.imm_or_key, got.byte_count), (7, 99, 6))
            self.assertEqual(b.memory[100:106], b"inline")
            a.memory[:] = os.urandom(len(a.memory))
            far = {"remote_address": b.region.address, "rkey": b.region.rkey}
            a.qp.post_write([a.region[:1000], a.region[1000:]], **far)
            a.next().check()
            self.assertEqual(a.memory, b.memory)
            b.memory[:5] = b"there"
            a.qp.post_read(a.region[10:15], **far)
            self.assertEqual(a.next().check().type, weft.WorkType.READ)
            self.assertEqual(a.memory[10:15], b"there")
            b.memory[:8] = (40).to_bytes(8, sys.byteorder)
            a.qp.post_fetch_add(a.region[:8], add=-2, **far)
            a.next().check()
            a.qp.post_compare_swap(a.region[8:16], compare=38, swap=5, **far)
            a.next().check()
            self.assertEqual([int.from_bytes(part, sys.byteorder) for part in
                              (a.memory[:8], a.memory[8:16], b.memory[:8])], [40, 38, 5])
            self.assertEqual(a.qp.query()["dest_qpn"], b.qp.number)
            self.assertGreater(a.device.counters()["tx_packets"], 0)

    def test_unreliable_datagrams(self):
        for device in self.each():
            a, b = joined(device, weft.QpType.UD)
            b.qp.post_recv(b.region[:2048])
            a.qp.post_send(b"datagram", to=a.peer.destination)
            a.next().check()
            got = b.next().check()
            self.assertEqual(b.memory[40:48], b"datagram")
            back = weft.Destination.sender(b.memory[:40], got.source_qpn)
            self.assertEqual((back.gid, back.qpn), (a.device.gid, a.qp.number))
            a.qp.post_recv(a.region[:2048])
            b.qp.post_send(b.region[40:48], to=back)
            self.assertEqual(a.next().check().byte_count, 48)

    def test_unreliable_connection(self):
        for device in self.each():
            a, b = joined(device, weft.QpType.UC)
            b.qp.post_recv(b.region[:])
            a.qp.post_send(a.region[:100])
            a.next().check()
            self.assertEqual(b.next().check().byte_count, 100)

    def test_scalable_reliable_datagrams(self):
        for device in self.each("srd"):
            a, b = joined(device, weft.QpType.SRD)
            a.memory[:8] = array.array("i", [2, 3]).tobytes()
            for _ in range(3):
                a.qp.post_write_add(a.region[:8], b.region.address, b.region.rkey,
                                    to=a.peer.destination)
                a.next().check()
            self.assertEqual(array.array("i", bytes(b.memory[:8])).tolist(), [6, 9])
            b.qp.post_recv(b.region[:64])
            a.qp.post_send(b"to any peer", to=a.peer.destination)
            got = b.next().check()
            self.assertEqual(b.device.peer_address(got.source_peer), a.device.gid)

    def test_in_an_event_loop(self):
        async def serve(listener, side):
            await listener.accept_async(side.qp)
            side.qp.post_recv(side.region[:100])
            async for completion in side.cq:
                if completion.type == weft.WorkType.RECV:
                    side.qp.post_send(side.region[:completion.check().byte_count])
                else:
                    return

        async def ask(address, side):
            await weft.connect_async(address, side.qp)
            side.qp.post_recv(side.region[:100])
            await asyncio.sleep(0.05)  # both sleep on their descriptors meanwhile
            side.qp.post_send(b"echo")
            got = []
            while len(got) < 2:
                got += await side.cq.next()
            return sorted(one.check().type.name for one in got), bytes(side.memory[:4])

        async def both(device):
            a, b = Side(device), Side(device)
            with weft.Listener("127.0.0.1:0") as listener:
                server = asyncio.ensure_future(serve(listener, b))
                answer = await ask(f"127.0.0.1:{listener.port}", a)
                await server
            return answer

        for device in self.each():
            self.assertEqual(asyncio.run(asyncio.wait_for(both(device), SECONDS)),
                             (["RECV", "SEND"], b"echo"))


class Memory(unittest.TestCase):
    def setUp(self):
        self.a, self.b = joined("roce+udp:lo")

    def write(self, source):
        far = self.b.region
        self.a.qp.post_write(source, far.address, far.rkey)
        self.a.next().check()

    def test_any_buffer_without_a_copy(self):
        words = array.array("q", range(10))
        with self.a.pd.register(words) as region:
            self.assertEqual(len(region), 80)
            words[3] = 1234  # seen by the request, since nothing was copied
            self.write(region[24:32])
            self.assertEqual(int.from_bytes(self.b.memory[:8], sys.byteorder), 1234)
        with self.a.pd.register(b"never changes", weft.Access.NONE) as region:
            self.write(region[:5])
            self.assertEqual(self.b.memory[:5], b"never")
        with self.a.pd.register(memoryview(bytearray(b"0123456789"))[2:6]) as region:
            self.write(region[:])
            self.assertEqual(self.b.memory[:4], b"2345")

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no python3-numpy")
        there = numpy.zeros(100, dtype=numpy.float32)
        here = numpy.arange(100, dtype=numpy.float32)
        far = self.b.pd.register(there)
        with self.a.pd.register(here) as region:
            self.a.qp.post_write(region[:], far.address, far.rkey)
            self.a.next().check()
        self.assertTrue((there == here).all())
        with self.assertRaises(ValueError):
            self.a.pd.register(numpy.zeros((8, 8))[:, 0])  # not contiguous

    def test_a_registered_buffer_cannot_move(self):
        with self.assertRaises(BufferError):
            self.a.memory.extend(b"more")
        self.a.region.close()
        self.a.memory.extend(b"more")

    def test_a_dropped_region_is_deregistered_before_its_memory_goes(self):
        memory = bytearray(1 << 16)
        region = self.b.pd.register(memory)
        address, rkey = region.address, region.rkey
        del region
        gc.collect()
        memory.extend(b"free to move")
        self.a.qp.post_write(self.a.region[:8], address, rkey)
        done = self.a.next()
        self.assertEqual(done.status, weft.Status.REMOTE_ACCESS_ERROR)
        with self.assertRaisesRegex(weft.CompletionError, "WRITE .* remote_access_error: .* rkey"):
            done.check()


class Errors(unittest.TestCase):
    def test_each_has_its_kind_and_text(self):
        with self.assertRaisesRegex(weft.NotFound, "carrier_pigeon") as seen:
            weft.Device("roce+carrier_pigeon")
        self.assertEqual(seen.exception.code, weft.Code.NOT_FOUND)
        self.assertIsInstance(seen.exception, LookupError)
        a = Side("roce+udp:lo")
        with self.assertRaises(weft.BadState):
            a.qp.post_send(a.region[:8])
        with self.assertRaisesRegex(weft.InvalidArgument, "local_write"):
            a.pd.register(bytearray(8), weft.Access.REMOTE_WRITE)
        with self.assertRaises(TimeoutError):
            a.cq.wait(0.01)
        with self.assertRaises((ValueError, BufferError)):
            a.pd.register(b"bytes do not change")
        with self.assertRaisesRegex(TypeError, "no attribute 'colour'"):
            a.qp.modify(colour=1)
        with self.assertRaisesRegex(weft.NotFound, "127.0.0.1:1"):
            weft.connect("127.0.0.1:1", a.qp)

    def test_full_queue(self):
        a, b = joined("roce+udp:lo", max_send_wr=4)
        with self.assertRaises(weft.QueueFull):
            for _ in range(1000):
                a.qp.post_write(a.region[:], b.region.address, b.region.rkey)

    def test_closed_objects(self):
        a = Side("roce+udp:lo")
        a.device.close()  # what was made from it goes on
        a.qp.modify(state=weft.QpState.INIT, pkey_index=0, port=1, access=weft.Access.ALL)
        a.qp.close()
        a.qp.close()
        with self.assertRaisesRegex(weft.InvalidArgument, "qp is NULL"):
            a.qp.post_recv()

    def test_listing(self):
        self.assertIn("roce+udp:lo", [one.spec for one in weft.list_devices() if one.usable])


if __name__ == "__main__":
    unittest.main()
