# SPDX-License-Identifier: BSD-3-Clause
"""Rxe's hw_counters and ours under the same names (weft_stat), after the same has happened to each.
README.md tabulates what the names mean at either end."""
import json
import os
import subprocess
import time

import exchanges

FOLDER = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
LIMIT_S = 10
NO_QP = 0xABCDE  # a queue pair that neither end has


def of_rxe(rxe):
    said = rxe.shell(command=f"cd {FOLDER} && grep . *")
    return {name: int(value) for name, value in (word.split(":") for word in said.split())}


def of_weft(weft):
    said = subprocess.run([exchanges.BIN / "weft_stat", "--json", "-i", "0", str(weft.process)],
                          capture_output=True, check=True).stdout
    return json.loads(said)["devices"][0]["hw_counters"]


class Counted:
    """What has been counted at an end since."""

    def __init__(self, end):
        self.read = of_weft if end.name == "weft" else of_rxe
        self.end = end
        self.before = self.read(end)

    def since(self):
        return {name: value - self.before[name] for name, value in self.read(self.end).items()
                if value != self.before[name] and name not in ("rdma_sends", "rdma_recvs")}


def expect_counters(test, ends, right):
    """What both have counted once `right` says so, after all frames in flight have arrived."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        seen = [each.since() for each in ends]
        if right(*seen) or time.monotonic() > deadline:
            test.assertTrue(right(*seen), seen)
            if os.environ.get("WEFT_SHOW"):
                print(ends[0].end.name, seen)
            return
        time.sleep(0.05)


def all_arrives(test, wire, source, target):
    counted = Counted(source), Counted(target)
    test.carry_out(exchanges.Move(wire, (source, target), "write", 64, 5000))
    expect_counters(test, counted, lambda mine, theirs: set(mine) == set(theirs) == {
        "sent_pkts", "rcvd_pkts"} and mine["sent_pkts"] == theirs["rcvd_pkts"]
            and mine["rcvd_pkts"] == theirs["sent_pkts"])


def no_receive(test, _wire, source, target):
    counted = Counted(source), Counted(target)
    source.post(op="send", id=1, offset=0, size=8)
    expect_counters(test, counted, lambda mine, theirs: theirs.get("send_rnr_err", 0) >= 2)
    target.receive(count=1, size=8)
    test.assertEqual(source.next(limit_ms=20000)["status"], "success")
    expect_counters(test, counted, lambda mine, theirs:
            mine["rcvd_rnr_err"] == theirs["send_rnr_err"] and "rcvd_seq_err" not in mine)


def never_a_receive(test, wire, source, target):
    wire.connect(rnr_retry=1)
    counted = Counted(source), Counted(target)
    source.run(op="send", count=1, size=8)
    expect_counters(test, counted, lambda mine, theirs:
            mine.get("retry_rnr_exceeded_err") == 1 and mine["rcvd_rnr_err"] == 2
            == theirs["send_rnr_err"] and "retry_exceeded_err" not in mine)


def no_answer(test, wire, source, target):
    source.qp(type="rc")
    source.connect(gid=wire.open[target]["gid"], qpn=NO_QP, psn=1, peer_psn=1, timeout=12, retry=2)
    counted = Counted(source), Counted(target)
    source.run(op="write", count=1, size=8, rkey=1, address=0)
    expect_counters(test, counted, lambda mine, theirs:
            mine.get("retry_exceeded_err") == 1 and mine["sent_pkts"] == 3
            and mine["completer_retry_err"] in (2, 3))


def many(test, wire, source, target):
    for _ in range(3):
        test.carry_out(exchanges.Move(wire, (source, target), "write", 200, 5000))


def doubled(test, wire, source, target):
    counted = Counted(source), Counted(target)
    many(test, wire, source, target)
    expect_counters(test, counted, lambda mine, theirs:
            set(theirs) == {"sent_pkts", "rcvd_pkts", "duplicate_request"}
            and set(mine) == {"sent_pkts", "rcvd_pkts"}
            and theirs["rcvd_pkts"] == mine["sent_pkts"] + theirs["duplicate_request"])


def lost(test, wire, source, target):
    counted = Counted(source), Counted(target)
    many(test, wire, source, target)
    expect_counters(test, counted, lambda mine, theirs:
            {"rcvd_seq_err", "completer_retry_err"} <= set(mine) and "out_of_seq_request" in theirs
            and mine["rcvd_seq_err"] <= theirs["out_of_seq_request"]
            and not {"out_of_seq_request", "rcvd_rnr_err", "retry_exceeded_err"} & set(mine))


def attempt(what, test, wire, *direction):
    """A starved guest may let something be sent twice, which counts; not three times in a row."""
    for left in (2, 1, 0):
        wire.connect()
        try:
            return what(test, wire, *direction)
        except AssertionError:
            if not left:
                raise


def check(test, wire):
    weft, rxe = wire.open
    test.assertLessEqual(set(of_weft(weft)), set(of_rxe(rxe)))
    for netem, kinds in ((None, (all_arrives, no_receive, never_a_receive, no_answer)),
                         ("duplicate 2%", (doubled,)), ("loss 1%", (lost,))):
        if netem:
            test.impair(netem)
        for what in kinds:
            for source, target in wire.directions():
                with test.subTest(what=what.__name__, requester=source.name):
                    attempt(what, test, wire, source, target)
        test.doCleanups()  # of what impairs
