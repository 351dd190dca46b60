# SPDX-License-Identifier: BSD-3-Clause
"""What two ends promise each other when the guest's kernel loses, doubles and overtakes packets.

The reliable service: all that it promises without. The others: what completes a receive is one
message, whole, in its order on UC, and the sender knows of no loss. UD loses nothing by duplicates,
which it delivers, or by being overtaken."""
import re

import exchanges
import guest

# What tc netem does to both directions. The last lets 1 % of packets be overtaken.
LOSS, DUPLICATES, OVERTAKEN = IMPAIRMENTS = ("loss 1%", "duplicate 2%", "delay 200us reorder 99%")
BATCH, BATCHES = 100, 3  # messages; twice as many receives fit in a queue
UNRELIABLE = (("uc", "send_with_imm", 3000), ("uc", "write_with_imm", 3000),
              ("ud", "send_with_imm", 1000))


class Impaired:
    """RC, for a class of exchanges whose other end is in a guest and has `shell`."""

    def impair(self, netem):
        begin, end = guest.impairment(netem)
        self.assertEqual(self.shell(*begin).strip(), "")
        self.addCleanup(self.shell, *end)

    def check_impaired(self, netem, least=1000):
        """Both directions really went that way."""
        sent = self.shell("tc -s qdisc show dev wire0", "tc -s qdisc show dev ifb0")
        counts = [int(n) for n in re.findall(r"Sent \d+ bytes (\d+) pkt", sent)]
        self.assertGreater(min(counts), least, sent)
        dropped = [int(n) for n in re.findall(r"netem.*?dropped (\d+)", sent)]
        self.assertEqual(len(dropped), 2, sent)
        if netem == LOSS:
            self.assertTrue(all(dropped), sent)

    def reliable(self, netem):
        self.impair(netem)
        self.one_way_and_the_other(exchanges.MOVES, [5000], 100)
        self.test_atomics()
        self.check_impaired(netem)


class EveryService:
    """Beside Impaired: what of RC depends on an order, and UC and UD."""

    def ordered(self, netem):
        self.impair(netem)
        # The refusing end sends nothing afterwards, so a lost NAK is not repeated.
        refusals = ("remote_access_error",) + ("retry_exceeded",) * (netem == LOSS)
        for direction in self.wire.directions():
            with self.this_way(direction):
                self.wire.connect()
                self.reads_of_unlike_size(*direction)
                for fetched, behind in (("read", "send"), ("fetch_add", "write")):
                    self.wire.connect()
                    self.fence(*direction, fetched, behind, packets=20, rounds=5)
                for _ in range(3):
                    # A lost NAK leaves it to the retries, and rxe takes 7 as no limit.
                    self.wire.connect(retry=6)
                    self.send_with_invalidate(*direction, refusals=refusals)
        self.check_impaired(netem)

    def unreliable(self, netem, service, operation, size):
        """Messages of `size` bytes, each with its number as immediate data."""
        self.impair(netem)
        lost = 0
        for direction in self.wire.directions():
            with self.this_way(direction):
                # README.md: rxe executes no WRITE of UC behind a gap.
                ends = direction[1].name == "rxe" and operation.startswith("write")
                for _ in range(BATCHES):
                    self.wire.connect(service=service)
                    came = self.batch(direction, operation, size)
                    if not ends:
                        self.assertGreater(len(set(came)), BATCH // 2)
                    lost += BATCH - len(set(came))
                    self.check_order(netem, service, came)
        self.assertTrue(lost or netem != LOSS)
        self.check_impaired(netem, least=BATCH * BATCHES // 2)

    def check_order(self, netem, service, came):
        if service == "uc" or netem == LOSS:
            self.assertEqual(came, sorted(set(came)))
        if service == "ud" and netem != LOSS:
            self.assertEqual(sorted(set(came)), list(range(BATCH)))
            self.assertTrue(len(came) == BATCH or netem == DUPLICATES)

    def batch(self, direction, operation, size):
        """The numbers of the messages that came, in their order. Each must be whole."""
        source, target = direction
        source.fill(seed=self.wire.random.randrange(1 << 32), length=BATCH * size)
        target.fill(seed=0, length=2 * BATCH * size)
        target.receive(count=2 * BATCH, size=size)
        memory = self.wire.open[target]
        self.assertEqual(source.run(op=operation, count=BATCH, size=size, rkey=memory["rkey"],
                                    address=memory["address"]),
                         {"status": "success", "done": str(BATCH)})
        came = []  # (number, where it lies)
        while (got := target.next(limit_ms=100))["kind"] == "receive":
            self.assertEqual((got["status"], got["bytes"]), ("success", str(size)))
            number = int(got["imm"])
            came.append((number, number if operation.startswith("write") else int(got["id"])))
        for number, place, count in runs(came):
            self.assertEqual(source.digest(offset=number * size, length=count * size),
                             target.digest(offset=place * size, length=count * size), came)
        return [number for number, _ in came]


def runs(pairs):
    """(number, place, count) of each sequence in which both count up by one."""
    found = []
    for number, place in pairs:
        if found and (number, place) == (found[-1][0] + found[-1][2], found[-1][1] + found[-1][2]):
            found[-1][2] += 1
        else:
            found.append([number, place, 1])
    return found


def add_tests():
    """Gives both classes their tests; the names of those of EveryService."""
    names = []
    for netem in IMPAIRMENTS:
        name = "test_under_" + re.sub(r"\W+", "_", netem).strip("_")
        setattr(Impaired, name, lambda self, netem=netem: self.reliable(netem))
        names.append(f"{name}_rc_in_order")
        setattr(EveryService, names[-1], lambda self, netem=netem: self.ordered(netem))
        for how in UNRELIABLE:
            names.append(f"{name}_{how[0]}_{how[1]}")
            setattr(EveryService, names[-1],
                    lambda self, netem=netem, how=how: self.unreliable(netem, *how))
    return names


TESTS_OF_EVERY_SERVICE = add_tests()
