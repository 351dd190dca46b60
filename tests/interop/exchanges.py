# SPDX-License-Identifier: BSD-3-Clause
"""What any two ends of a wire must be able to do with each other, and a proof that they did it.

Both ends get the same commands (tools/script/responder.hpp), so neither checks itself: their bytes
are compared by digest. WEFT_SEED repeats a run.
"""
import os
import pathlib
import random
import socket
import subprocess
import time

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin"
SEED = int(os.environ.get("WEFT_SEED", "0")) or random.randrange(1, 1 << 32)
MEMORY = 8 << 20
MTU = 1024
SIZES = (0, 1, 3, 4, 255, MTU - 1, MTU, MTU + 1, 2 * MTU, 2 * MTU + 1, 4099, 65536, 1 << 20)
MOVES = ("send", "send_with_imm", "write", "write_with_imm", "read")
CONNECT_LIMIT_S = 30
TIMEOUT = 16  # 268 ms, eight times: a busy machine may keep a guest from running for a second
GROUP, OTHER_GROUP = "239.77.1.2", "239.205.1.2"  # one Ethernet address
EVERYBODY = 0xFFFFFF  # the queue pair of a group


class Refused(Exception):
    """What a puppet answered to a command that it cannot carry out."""


class Puppet:
    """One end. Each method is one command of responder.hpp: its keys are arguments, its answer
    a dict. `begin` and `end` are its halves, so that both ends can be at work at the same time."""

    def __init__(self, name, address, port):
        self.name = name
        deadline = time.monotonic() + CONNECT_LIMIT_S
        while True:
            try:
                self.connection = socket.create_connection((address, port), timeout=2)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.connection.settimeout(300)
        self.lines = self.connection.makefile("r")

    def begin(self, command, /, **keys):
        words = " ".join([command] + [f"{key}={value}" for key, value in keys.items()])
        self.connection.sendall((words + "\n").encode())

    def end(self):
        answer = self.lines.readline().rstrip("\n")
        if not answer.startswith("ok "):
            raise Refused(f"{self.name}: {answer or 'gone'}")
        if answer.startswith("ok output="):
            return answer[len("ok output="):]
        return dict(word.split("=", 1) for word in answer.split()[1:])

    def __getattr__(self, command):
        def call(**keys):
            self.begin(command, **keys)
            return self.end()
        return call


def start_weft(case, name, within=(), address="127.0.0.1"):
    """Weft's end, as a process that ends with the test case. `within`: the command that starts it
    where it has `address`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*within, str(BIN / "weft_puppet"), str(port)])
    case.addClassCleanup(process.wait)
    case.addClassCleanup(process.kill)
    puppet = Puppet(name, address, port)
    puppet.process = process.pid
    return puppet


class Wire:
    """Two puppets with an open device each, and connections between them."""

    def __init__(self, devices):
        """`devices`: the device string of each puppet; None: the one it was started with."""
        self.random = random.Random(SEED)
        self.open = {}
        for end, device in devices.items():
            self.add(end, device)

    def add(self, end, device):
        named = {"device": device} if device else {}
        self.open[end] = end.open(memory=MEMORY, **named)

    def connect(self, service="rc", first_psn=0, **options):
        """New queue pairs on both ends, whose PSNs begin at random from `first_psn` on. Options as
        those of the command connect."""
        qpn = {end: end.qp(type=service)["qpn"] for end in self.open}
        psn = {end: self.random.randrange(first_psn, 1 << 24) for end in self.open}
        for end, peer in self.directions():
            end.connect(gid=self.open[peer]["gid"], qpn=qpn[peer], psn=psn[end],
                        peer_psn=psn[peer], **{"mtu": MTU, "timeout": TIMEOUT, **options})

    def directions(self):
        """(requester, target), both ways."""
        one, other = self.open
        return (one, other), (other, one)


class Move:
    """`count` messages of one operation from `offset` on at both ends, and what must come of it."""

    def __init__(self, wire, direction, operation, count, size, offset=0):
        self.source, self.target = direction
        self.operation, self.count, self.size, self.offset = operation, count, size, offset
        self.memory = wire.open[self.target]
        self.seed = wire.random.randrange(1 << 32)
        self.receives = operation.startswith("send") or operation.endswith("imm")

    def part(self):
        return {"offset": self.offset, "length": self.count * self.size}

    def prepare(self):
        giver, taker = self.source, self.target
        if self.operation == "read":
            giver, taker = taker, giver
        giver.fill(seed=self.seed, **self.part())
        taker.fill(seed=0, **self.part())
        if self.receives:
            self.target.receive(count=self.count, size=self.size, offset=self.offset)

    def begin(self):
        self.source.begin("run", op=self.operation, count=self.count, size=self.size,
                          offset=self.offset, rkey=self.memory["rkey"],
                          address=int(self.memory["address"]) + self.offset)

    def end(self, test):
        test.assertEqual(self.source.end(), {"status": "success", "done": str(self.count)},
                         (self.operation, self.size))

    def check(self, test):
        if self.receives:
            got = self.target.collect(count=self.count)
            test.assertEqual((got["status"], got["received"], got["bytes"]),
                             ("success", str(self.count), str(self.count * self.size)))
            test.assertTrue(self.operation == "send" or got["in_order"] == "1")
        test.assertEqual(self.source.digest(**self.part()), self.target.digest(**self.part()),
                         (self.operation, self.size))


class Exchanges:
    """The tests; a class that is also a unittest.TestCase has their `wire`."""

    wire = None
    mtus = (256, 512)  # besides MTU
    hide_revoked = ()  # names of ends whose completions do not say which key a SEND has revoked

    def setUp(self):
        self.wire.connect()

    def this_way(self, direction):
        return self.subTest(requester=direction[0].name, seed=SEED)

    def carry_out(self, *moves):
        """All at the same time."""
        for move in moves:
            move.prepare()
        for move in moves:
            move.begin()
        for move in moves:
            move.end(self)
        for move in moves:
            move.check(self)

    def one_way_and_the_other(self, operations, sizes, count):
        for direction in self.wire.directions():
            with self.this_way(direction):
                for operation in operations:
                    for size in sizes:
                        self.carry_out(Move(self.wire, direction, operation, count, size))

    def test_operations_around_the_path_mtu(self):
        self.one_way_and_the_other(MOVES, SIZES, 7)

    def test_psn_wrap(self):  # C-PSN-18
        for operation in MOVES:
            self.wire.connect(first_psn=0xFFFFF0)
            self.one_way_and_the_other([operation], [3 * MTU + 1], 20)
        self.wire.connect(first_psn=0xFFFFF0)
        self.test_atomics()

    def test_other_path_mtus(self):  # C-OPS-71
        for mtu in self.mtus:
            self.wire.connect(mtu=mtu)
            self.one_way_and_the_other(MOVES, (mtu - 1, mtu, 3 * mtu + 1), 20)

    def test_unreliable_connected(self):
        """Few packets at a time: what is lost is lost. Receives show that all has come."""
        self.wire.connect(service="uc")
        self.one_way_and_the_other(("send", "send_with_imm", "write_with_imm"), SIZES[:-2], 4)

    def test_datagrams(self):
        """UD: an address handle, a Q_Key, and 40 bytes of network header before each payload."""
        self.wire.connect(service="ud")
        self.one_way_and_the_other(MOVES[:2], [size for size in SIZES if size <= MTU], 4)

    def test_multicast(self):  # C-OPS-87
        """UD to a group whose member is the other end, and to one that has no members."""
        for direction in self.wire.directions():
            source, target = direction
            with self.this_way(direction):
                for end in direction:
                    end.qp(type="ud")
                target.attach(group=GROUP)
                source.connect(gid=GROUP, qpn=EVERYBODY, psn=1, peer_psn=1)
                target.connect(gid=GROUP, qpn=EVERYBODY, psn=1, peer_psn=1)
                for operation in MOVES[:2]:
                    for size in (size for size in SIZES if size <= MTU):
                        self.carry_out(Move(self.wire, direction, operation, 4, size))
                source.qp(type="ud")  # which sends to another group
                source.connect(gid=OTHER_GROUP, qpn=EVERYBODY, psn=1, peer_psn=1)
                target.receive(count=1, size=8)
                source.run(op="send", count=1, size=8)
                self.assertEqual(target.next(limit_ms=100)["kind"], "none")

    def test_atomics(self):
        for direction in self.wire.directions():
            for operation, step in (("fetch_add", 3), ("compare_swap", 1)):
                with self.this_way(direction):
                    self.atomics(*direction, operation, step)

    def atomics(self, source, target, operation, step, count=500):
        target.ramp(count=1)  # the target word: 0
        memory = self.wire.open[target]
        answer = source.run(op=operation, count=count, add=step, address=memory["address"],
                            rkey=memory["rkey"])
        self.assertEqual(answer, {"status": "success", "done": str(count)}, operation)
        fetched, last = source.digest(length=8 * count), target.digest(length=8)
        source.ramp(count=count + 1, step=step)  # what they must have fetched
        self.assertEqual(fetched, source.digest(length=8 * count))
        self.assertEqual(last, source.digest(offset=8 * count, length=8))

    def completed_ids(self, end, count):
        """The ids of the next `count` completions of `end`, which must all be good."""
        ids = []
        while len(ids) < count:
            done = end.next(limit_ms=20000)
            self.assertEqual(done.get("status"), "success", (ids, done))
            ids.append(int(done["id"]))
        return ids

    def test_reads_of_unlike_size(self):
        """One queue with READs of no byte to a million, WRITEs and atomics between them: each
        fetches its own, and they end in the order in which they were posted."""
        for direction in self.wire.directions():
            with self.this_way(direction):
                self.wire.connect()
                self.reads_of_unlike_size(*direction)

    def reads_of_unlike_size(self, source, target):
        words = MEMORY // 2  # behind what is read, at both ends: what is written, and added to
        sizes = [self.wire.random.choice(SIZES) for _ in range(60)]
        while sum(sizes) > words:
            sizes.pop()
        word = words + 8 * len(sizes)
        memory = self.wire.open[target]
        target.fill(seed=self.wire.random.randrange(1 << 32), length=words)
        source.fill(seed=0, length=words)
        source.fill(seed=7, offset=words, length=8 * len(sizes))
        target.ramp(offset=word, count=1)
        posted = []
        for i, size in enumerate(sizes):
            mine = {"offset": words + 8 * i, "size": 8}
            self.ask(source, memory, "read", 2 * i, offset=sum(sizes[:i]), size=size)
            if i % 2:
                self.ask(source, memory, "write", 2 * i + 1, **mine)
            else:
                self.ask(source, memory, "fetch_add", 2 * i + 1, place=word, add=3, **mine)
            posted += [2 * i, 2 * i + 1]
        self.assertEqual(self.completed_ids(source, len(posted)), posted)
        parts = [{"offset": 0, "length": sum(sizes)}]
        parts += [{"offset": words + 8 * i, "length": 8} for i in range(1, len(sizes), 2)]
        for part in parts:
            self.assertEqual(source.digest(**part), target.digest(**part), part)
        self.assertEqual(target.peek(offset=word, length=8)["hex"],
                         (3 * ((len(sizes) + 1) // 2)).to_bytes(8, "little").hex())

    def ask(self, source, memory, operation, number, place=None, **keys):
        """Posts one request; it is about the same place there as here unless `place` says so."""
        self.begin(source, memory, operation, number, place, **keys)
        source.end()

    @staticmethod
    def begin(source, memory, operation, number, place=None, **keys):
        place = keys["offset"] if place is None else place
        source.begin("post", op=operation, id=number, rkey=memory["rkey"],
                     address=int(memory["address"]) + place, **keys)

    def test_fence(self):  # C-OPS-80
        """What a READ or an atomic fetches is what a fenced request behind it sends."""
        for direction in self.wire.directions():
            for fetched in ("read", "fetch_add"):
                for behind in ("write", "send"):
                    with self.this_way(direction), self.subTest(behind=behind):
                        self.wire.connect()
                        self.fence(*direction, fetched, behind)

    # rxe waits after a READ of 128 packets
    def fence(self, source, target, fetched, behind, packets=100, rounds=10):
        size = 8 if fetched == "fetch_add" else packets * MTU
        back = MEMORY // 2  # where it comes to lie at the target
        memory = self.wire.open[target]
        for _ in range(rounds):
            target.fill(seed=self.wire.random.randrange(1 << 32), length=size)
            before = target.digest(length=size)
            source.fill(seed=0, length=size)
            target.fill(seed=0, offset=back, length=size)
            if behind == "send":
                target.receive(count=1, size=size, offset=back)
            # Both at once: the first must not have ended when the second is posted.
            self.begin(source, memory, fetched, 1, offset=0, size=size, add=0)
            self.begin(source, memory, behind, 2, offset=0, size=size, place=back, fence=1)
            source.end()
            source.end()
            self.assertEqual(self.completed_ids(source, 2), [1, 2])
            if behind == "send":
                self.assertEqual(target.collect(count=1)["status"], "success")
            self.assertEqual(target.digest(offset=back, length=size), before)

    def test_send_with_invalidate(self):  # C-OPS-73
        """A key is valid until a SEND revokes it, which the receive completion reports."""
        for direction in self.wire.directions():
            with self.this_way(direction):
                self.wire.connect()
                self.send_with_invalidate(*direction)

    def send_with_invalidate(self, source, target, size=3000, refusals=("remote_access_error",)):
        key = target.window(offset=0, length=MEMORY)["rkey"]
        window = {**self.wire.open[target], "rkey": key}
        source.fill(seed=self.wire.random.randrange(1 << 32), length=MEMORY // 2)
        target.fill(seed=0, length=MEMORY // 2)
        self.ask(source, window, "write", 1, offset=0, size=size)
        target.receive(count=1, size=size, offset=size, id=9)
        source.post(op="send_with_invalidate", id=2, offset=size, size=size, invalidate=key)
        self.assertEqual(self.completed_ids(source, 2), [1, 2])
        got = target.next(limit_ms=20000)
        self.assertEqual((got["kind"], got["status"], got["id"], got["bytes"]),
                         ("receive", "success", "9", str(size)))
        if target.name not in self.hide_revoked:
            self.assertEqual(got["invalidated"], key)
        for part in ({"offset": 0, "length": size}, {"offset": size, "length": size}):
            self.assertEqual(source.digest(**part), target.digest(**part))
        self.ask(source, window, "write", 3, offset=2 * size, size=8)
        done = source.next(limit_ms=20000)
        self.assertEqual((done["kind"], done.get("id")), ("send", "3"), done)
        self.assertIn(done["status"], refusals)

    def test_both_directions_at_once(self):
        for operation in MOVES:
            with self.subTest(operation=operation, seed=SEED):
                self.carry_out(*(Move(self.wire, direction, operation, 100, 5000, offset)
                                 for direction, offset in zip(self.wire.directions(),
                                                              (0, MEMORY // 2))))
